//! What `--model`, `--coalesce` and `--assign` plan.

use super::RunArguments;
use crate::{
    cli::{Failure, models::model},
    plan::{Axis, Coalesce, Model, Pattern, Plan},
};

/// Refuses what patterns of tensors need and do not have, or have of their own.
///
/// # Errors
/// What, and what to give.
pub(super) fn check(arguments: &RunArguments, patterns: &[Pattern]) -> Result<(), Failure> {
    let refused = |words: &str| Err(Failure::Usage(words.to_owned()));
    let (some, all) = (
        patterns.iter().any(|pattern| pattern.is_of_tensors()),
        patterns.iter().all(|pattern| pattern.is_of_tensors()),
    );
    if !some {
        return match (arguments.model.is_empty(), arguments.coalesce) {
            (false, _) => refused("--model names what a step moves; give --pattern tensor"),
            (true, Some(_)) => refused("--coalesce is of tensors; give --pattern tensor"),
            (true, None) => Ok(()),
        };
    }
    if arguments.model.is_empty() {
        let names: Vec<_> = Model::known().map(|model| model.name).collect();
        return Err(Failure::Usage(format!(
            "--pattern tensor moves the tensors of a model: give --model with one or more of {}, or a file",
            names.join(", ")
        )));
    }
    match all {
        true if arguments.sizes.is_some() || arguments.all => {
            refused("--sizes (-s, -a): tensors have the sizes of their model; leave it out")
        }
        true if !arguments.buffers.is_empty() => {
            refused("--buffers: the buffers of a call are its tensors; give --coalesce")
        }
        _ => Ok(()),
    }
}

/// The models that were named, each once.
///
/// # Errors
/// There is no such model or file, it is none, or one is named twice.
pub(super) fn models(arguments: &RunArguments) -> Result<Vec<Model>, Failure> {
    let mut models: Vec<Model> = Vec::new();
    for name in &arguments.model {
        let model = model(name)?;
        if models.iter().any(|other| other.name == model.name) {
            return Err(Failure::Usage(format!("model {} is named twice", model.name)));
        }
        models.push(model);
    }
    Ok(models)
}

/// `plan` with each cell of tensors as its variant says.
///
/// # Errors
/// A variant coalesces in no way that there is.
pub(super) fn settled(mut plan: Plan) -> Result<Plan, Failure> {
    for cell in &mut plan.cells {
        let Some(tensors) = &mut cell.tensors else { continue };
        if let Some(value) = cell.variant.get(Axis::Coalesce) {
            let refused = |why| Failure::Usage(format!("--coalesce: {why}"));
            tensors.coalesce = value.to_string().parse().map_err(refused)?;
        }
        tensors.assign = cell.variant.get(Axis::Assign).is_some_and(|value| value.is_yes());
    }
    Ok(plan)
}

/// What `--coalesce` takes.
pub(super) fn parse_coalesce(text: &str) -> Result<Coalesce, String> {
    text.parse()
}
