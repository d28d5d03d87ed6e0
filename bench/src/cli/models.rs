//! `fabricbench models`.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read as _},
};

use clap::{Args, builder::NonEmptyStringValueParser};
use comfy_table::{CellAlignment, Table, presets};

use super::{Exit, Failure, print};
use crate::plan::{LARGEST_MODEL_FILE, Model, display_bytes};

#[derive(Debug, Args)]
pub(super) struct ModelsArguments {
    /// Print the file of this one, with the name and shape of each tensor
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
}

pub(super) fn models(arguments: &ModelsArguments) -> Result<Exit, Failure> {
    let text = match &arguments.name {
        None => list(),
        Some(name) => {
            let file = Model::named(name).and_then(|model| model.file());
            file.ok_or_else(|| Failure::Usage(unknown(name)))?.to_owned()
        }
    };
    print(&text)?;
    Ok(Exit::Complete)
}

/// The model that comes with the program under `name`, or that of the file `name`.
///
/// # Errors
/// There is neither, or the file holds no model.
pub(super) fn model(name: &str) -> Result<Model, Failure> {
    if let Some(model) = Model::named(name) {
        return Ok(model);
    }
    let refused = |why: String| Failure::Usage(format!("--model {name}: {why}"));
    match read(name) {
        Ok(text) => Model::parse(&text).map_err(|error| refused(error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Failure::Usage(format!(
            "--model: `{name}` is neither a file nor a model that comes with the program; those are {}",
            known()
        ))),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// A file of at most [`LARGEST_MODEL_FILE`] bytes.
fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    // One more, to tell it from a longer one.
    File::open(path)?.take(LARGEST_MODEL_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_MODEL_FILE {
        let limit = display_bytes(LARGEST_MODEL_FILE);
        return Err(io::Error::other(format!("over {limit}, which no model's file is")));
    }
    Ok(text)
}

/// That there is no model of that name, and what there is.
fn unknown(name: &str) -> String {
    format!("no model is named `{name}`; there are {}", known())
}

fn known() -> String {
    Model::known().map(|model| model.name).collect::<Vec<_>>().join(", ")
}

fn list() -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["model", "tensors", "parameters", "element", "bytes", "largest tensor"]);
    let mut sources = String::new();
    for model in Model::known() {
        let largest = model.sizes().max().unwrap_or(0);
        table.add_row([
            model.name.clone(),
            model.tensors.len().to_string(),
            model.elements().to_string(),
            model.element.clone(),
            model.bytes().to_string(),
            display_bytes(largest).to_string(),
        ]);
        let _ = writeln!(sources, "{}: {}. {}", model.name, model.title, model.source);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index != 0 && index != 3 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n\n{sources}", table.trim_fmt())
}
