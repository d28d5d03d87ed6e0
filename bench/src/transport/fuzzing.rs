//! What a peer sends on the data path, and what it makes both sides compute.

use std::sync::OnceLock;

pub(crate) use super::tcp::tcp_stream;
use super::{Offer, tensors::Store, verbs::lay_out};
use crate::{
    control::{Message, Request},
    plan::{Cell, Pattern, Payload, TransportName},
};

/// Plans of verbs as the server makes them from what a client says.
pub(crate) fn verbs_plan(input: &[u8]) {
    let Ok(Message::Say(Request::Prepare { cell, depth, offers, .. })) =
        serde_json::from_slice(input)
    else {
        return;
    };
    let TransportName::Verbs(verbs) = cell.transport else { return };
    for offer in &offers {
        if let Offer::Verbs { settings, .. } | Offer::VerbsServer { settings, .. } = offer
            && settings.check().is_ok()
            && crate::control::fuzzing::is_within_limits(&cell, depth)
        {
            lay_out(&cell, verbs, depth, settings);
        }
    }
}

/// Which server, and a request to it.
pub(crate) fn tensor_call(input: &[u8]) {
    static CELLS: OnceLock<Vec<Cell>> = OnceLock::new();
    let cells = CELLS.get_or_init(|| {
        let cell = |pattern, assign| Cell {
            size: 24,
            tensors: Some(crate::plan::Tensors {
                model: "own".to_owned(),
                lengths: vec![7, 8, 9],
                coalesce: crate::plan::Coalesce::Bucket(16),
                assign,
            }),
            ..Cell::new("tcp@lo".parse().expect("it is one"), pattern, 24)
        };
        vec![
            cell(Pattern::TensorPush, true),
            cell(Pattern::TensorPush, false),
            cell(Pattern::TensorFetch, false),
        ]
    });
    let Some((&which, request)) = input.split_first() else { return };
    let cell = &cells[usize::from(which) % cells.len()];
    let store = Store::new(cell, 0, Payload::new(3)).expect("there is memory for it");
    let size = store.request_size(request);
    let answer = store.answer(request);
    assert_eq!(answer.is_ok(), size.is_ok_and(|size| size == Some(request.len())));
    let _ = store.received();
}
