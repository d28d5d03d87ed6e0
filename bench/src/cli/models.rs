//! `fabricbench models`.

use std::fmt::Write as _;

use clap::{Args, builder::NonEmptyStringValueParser};
use comfy_table::{CellAlignment, Table, presets};

use super::{Exit, Failure, print};
use crate::plan::{Model, display_bytes};

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

/// That there is no model of that name, and what there is.
fn unknown(name: &str) -> String {
    let names: Vec<_> = Model::known().map(|model| model.name).collect();
    format!("no model is named `{name}`; there are {}", names.join(", "))
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
