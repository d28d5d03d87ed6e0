//! The tensors of models: those that come with the program (`bench/models`, written by
//! `ci/model-tensors` from the published architectures), and a user's own.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The most tensors of a model.
pub const MOST_TENSORS: usize = 1 << 16;

/// The most bytes of a model's tensors together: 1 TiB, over which no machine holds them.
pub const LARGEST_MODEL: u64 = 1 << 40;

/// The most bytes of a model's file.
pub const LARGEST_MODEL_FILE: u64 = 16 << 20;

/// The most characters of a model's name, which columns and rows repeat.
const LONGEST_NAME: usize = 64;

/// The files that come with the program.
const KNOWN: [&str; 8] = [
    include_str!("../../models/alexnet.json"),
    include_str!("../../models/vgg-16.json"),
    include_str!("../../models/resnet-50.json"),
    include_str!("../../models/inception-v3.json"),
    include_str!("../../models/bert-large.json"),
    include_str!("../../models/gpt-2.json"),
    include_str!("../../models/llama-7b.json"),
    include_str!("../../models/llama-7b-layer.json"),
];

/// What training a model moves: its tensors in the order of the layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its name, as in `--model`.
    #[serde(rename = "model")]
    pub name: String,
    /// Which variant it is, in words.
    #[serde(default)]
    pub title: String,
    /// Where its architecture is published.
    #[serde(default)]
    pub source: String,
    /// What an element is, for a reader.
    #[serde(default)]
    pub element: String,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Elements of all tensors together; given so that a slip in a shape shows.
    #[serde(default)]
    pub parameters: Option<u64>,
    /// The tensors.
    pub tensors: Vec<Tensor>,
}

/// One of a model's tensors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its dimensions; of a single number none.
    pub shape: Vec<u64>,
}

impl Tensor {
    /// How many elements; `None`: more than 64 bits count.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |product, &dimension| product.checked_mul(dimension))
    }
}

/// Why a model could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    /// It is not of the shape of a model file.
    #[error("not a model: {0}; `fabricbench models NAME` prints one to start from")]
    Syntax(String),
    /// It says what cannot be.
    #[error("model `{model}`: {reason}")]
    Impossible {
        /// The model's name.
        model: String,
        /// What, and what the limit is.
        reason: String,
    },
}

impl Model {
    /// The models that come with the program, small to large within convolutional and transformer
    /// networks.
    pub fn known() -> impl Iterator<Item = Self> {
        KNOWN.into_iter().filter_map(|text| Self::parse(text).ok())
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::known().find(|model| model.name == name)
    }

    /// Reads a model's file.
    ///
    /// # Errors
    /// [`ModelError`]: another shape of document, no tensors, or sizes beyond the limits.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let model: Self =
            serde_json::from_str(text).map_err(|error| ModelError::Syntax(error.to_string()))?;
        match model.check() {
            Ok(()) => Ok(model),
            Err(reason) => {
                let name = model.name.chars().take(LONGEST_NAME).collect();
                Err(ModelError::Impossible { model: name, reason })
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let plain = |name: &str| {
            name.chars().all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char))
        };
        if self.name.is_empty() || self.name.len() > LONGEST_NAME || !plain(&self.name) {
            return Err(format!(
                "its name must be 1 to {LONGEST_NAME} letters, digits, dots, dashes or underscores"
            ));
        }
        if self.tensors.is_empty() || self.tensors.len() > MOST_TENSORS {
            return Err(format!(
                "it has {} tensors; a model has from 1 to {MOST_TENSORS}",
                self.tensors.len()
            ));
        }
        let (mut parameters, mut bytes) = (0u64, 0u64);
        for tensor in &self.tensors {
            let elements = tensor.elements();
            if elements == Some(0) {
                return Err(format!("tensor {} has no elements", tensor.name));
            }
            let sums = elements.and_then(|elements| {
                let more = elements.checked_mul(self.element_bytes)?;
                Some((parameters.checked_add(elements)?, bytes.checked_add(more)?))
            });
            match sums {
                Some(sums) if sums.1 <= LARGEST_MODEL => (parameters, bytes) = sums,
                _ => return Err("its tensors take more than 1 TiB".to_owned()),
            }
        }
        if bytes == 0 {
            return Err("its elements have no bytes".to_owned());
        }
        match self.parameters {
            Some(said) if said != parameters => {
                Err(format!("it says {said} parameters, and its tensors have {parameters}"))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of each tensor, in order.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.tensors
            .iter()
            .map(|tensor| tensor.elements().unwrap_or(0).saturating_mul(self.element_bytes))
    }

    /// Bytes of all tensors.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sizes().fold(0, u64::saturating_add)
    }

    /// Elements of all tensors.
    #[must_use]
    pub fn elements(&self) -> u64 {
        let elements = self.tensors.iter().filter_map(Tensor::elements);
        elements.fold(0, u64::saturating_add)
    }

    /// Its file's text.
    #[must_use]
    pub fn file(&self) -> Option<&'static str> {
        KNOWN.into_iter().find(|text| Self::parse(text).as_ref() == Ok(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts that the models' publishers and the programs that load their checkpoints give;
    /// each model's `source` says of which variant.
    #[test]
    fn models_have_the_published_numbers_of_parameters() {
        let published = [
            ("alexnet", 16, 61_100_840, 4),
            ("vgg-16", 32, 138_357_544, 4),
            ("resnet-50", 161, 25_557_032, 4),
            ("inception-v3", 292, 27_161_264, 4),
            ("bert-large", 391, 335_141_888, 4),
            ("gpt-2", 148, 124_439_808, 4),
            ("llama-7b", 291, 6_738_415_616, 2),
            ("llama-7b-layer", 9, 202_383_360, 2),
        ];
        let found: Vec<_> = Model::known().collect();
        assert_eq!(found.len(), KNOWN.len(), "every file can be read");
        for (model, (name, tensors, parameters, element)) in found.iter().zip(published) {
            assert_eq!(model.name, name);
            assert_eq!((model.tensors.len(), model.elements()), (tensors, parameters), "{name}");
            assert_eq!((model.element_bytes, model.bytes()), (element, parameters * element));
            assert_eq!(model.parameters, Some(parameters));
            assert!(model.source.contains("arXiv") || name == "gpt-2", "{name}: {}", model.source);
            assert_eq!(Model::named(name).as_ref(), Some(model));
            assert!(model.file().unwrap().contains(&model.title));
        }
        assert_eq!(Model::named("resnet"), None);
    }

    fn parse(members: &str) -> Result<Model, ModelError> {
        Model::parse(&format!("{{\"model\": \"own\", \"element_bytes\": 4, {members}}}"))
    }

    #[test]
    fn an_own_model_needs_little() {
        let model =
            parse(r#""tensors": [{"name": "w", "shape": [3, 5]}, {"name": "step", "shape": []}]"#)
                .unwrap();
        assert_eq!(model.sizes().collect::<Vec<_>>(), [60, 4]);
        assert_eq!((model.elements(), model.bytes(), model.file()), (16, 64, None));
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let refused = |members: &str, words: &str| {
            let error = parse(members).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(r#""tensors": []"#, "0 tensors; a model has from 1 to 65536");
        refused(r#""tensors": [{"name": "w", "shape": [3, 0]}]"#, "tensor w has no elements");
        refused(r#""tensors": [{"name": "w", "shape": [274877906945]}]"#, "more than 1 TiB");
        let huge = r#"{"name": "w", "shape": [4294967296, 4294967296]}"#;
        refused(&format!(r#""tensors": [{huge}]"#), "more than 1 TiB");
        let half = r#"{"name": "w", "shape": [137438953473]}"#;
        refused(&format!(r#""tensors": [{half}, {half}]"#), "more than 1 TiB");
        let one = r#"{"name": "w", "shape": [1]}"#;
        refused(&format!(r#""parameters": 2, "tensors": [{one}]"#), "says 2 parameters");
        refused(&format!(r#""tensors": [{one}], "sizes": []"#), "not a model: unknown field");
        refused(r#""tensors": [{"name": "w", "shape": [-1]}]"#, "not a model");
        let many = vec![one; MOST_TENSORS + 1].join(",");
        refused(&format!(r#""tensors": [{many}]"#), "65537 tensors");
        for name in ["", "a b", &"x".repeat(65), "r\u{e9}seau", "a\nb"] {
            let text = serde_json::json!({"model": name, "element_bytes": 4,
                "tensors": [{"name": "w", "shape": [1]}]});
            let error = Model::parse(&text.to_string()).unwrap_err();
            assert!(error.to_string().contains("its name must be"), "{error}");
        }
        let none =
            r#"{"model": "own", "element_bytes": 0, "tensors": [{"name": "w", "shape": [1]}]}"#;
        assert!(Model::parse(none).unwrap_err().to_string().contains("no bytes"));
    }
}
