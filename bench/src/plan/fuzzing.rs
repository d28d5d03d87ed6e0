//! What a plan is written in.

use super::{
    BufferSpec, Coalesce, KneeRule, Model, Precision, Service, Sizes, Tensors, Think,
    TransportName, display_bytes, parse_bytes,
};

pub(crate) fn model(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(model) = Model::parse(text) else { return };
    let mut tensors = Tensors::of(&model);
    assert_eq!(tensors.total(), Some(model.bytes()));
    for coalesce in [Coalesce::No, Coalesce::All, Coalesce::Bucket(100)] {
        tensors.coalesce = coalesce;
        let calls = tensors.calls(3);
        let bytes: u64 = calls.iter().flatten().map(|call| call.bytes()).sum();
        assert_eq!(bytes, model.bytes(), "a tensor is lost");
    }
}

/// The grammars of numbers: sizes, buffers, pauses, precision, knees.
pub(crate) fn size(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(sizes) = Sizes::parse(text) {
        let list = sizes.as_slice();
        assert!(!list.is_empty() && list.is_sorted() && !list.contains(&0), "{list:?}");
        let written: Vec<_> = list.iter().map(u64::to_string).collect();
        assert_eq!(Sizes::parse(&written.join(",")), Ok(sizes));
    }
    if let Ok(bytes) = parse_bytes(text) {
        assert_eq!(parse_bytes(&display_bytes(bytes).to_string().replace(' ', "")), Ok(bytes));
    }
    if let Ok(spec) = BufferSpec::parse(text) {
        for size in [1, 4096, 1 << 20] {
            let buffers = spec.buffers(size, 7);
            let _ = (buffers.total(), buffers.impossible(size));
        }
        assert_eq!(BufferSpec::parse(&spec.to_string()), Ok(spec));
    }
    if let Ok(think) = text.parse::<Think>() {
        assert_eq!(think.to_string().parse::<Think>(), Ok(think));
    }
    let _ = (text.parse::<Precision>(), text.parse::<KneeRule>());
    if let Ok(coalesce) = text.parse::<Coalesce>() {
        assert_eq!(coalesce.to_string().parse::<Coalesce>(), Ok(coalesce));
    }
}

pub(crate) fn transport(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        match TransportName::parse(text, service) {
            Err(error) => _ = error.to_string(),
            Ok(name) => {
                let _ = name.patterns();
                assert_eq!(name.to_string().parse::<TransportName>().as_ref(), Ok(&name));
            }
        }
    }
}
