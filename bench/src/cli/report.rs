//! `fabricbench report`.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use clap::{
    Args,
    builder::{PathBufValueParser, TypedValueParser as _},
};

use super::{
    Exit, Failure,
    diagnose::parse_rate,
    options::{parse_output, parse_sizes},
    say,
};
use crate::{
    html::{Options, Source, report as draw, tell_apart},
    plan::Sizes,
    report::{Content, ResultFile},
    transport::StopSignal,
};

#[derive(Debug, Args)]
pub(super) struct ReportArguments {
    /// Results, as `run -o` writes them; several are drawn over one another
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<PathBuf>,
    /// Write the page here
    #[arg(short = 'o', long, value_name = "FILE", default_value = "report.html",
          value_parser = PathBufValueParser::new().try_map(parse_output))]
    output: PathBuf,
    /// Write each figure as an SVG file into this folder as well
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Sizes whose latency distributions are drawn [default: the smallest, one in the middle, the largest]
    #[arg(short = 's', long, value_name = "SIZES", value_parser = parse_sizes)]
    sizes: Option<Sizes>,
    /// What the link carries, which is drawn as the limit of bandwidth: 10G, 800M, in bits a second
    #[arg(long, value_name = "BITS", value_parser = parse_rate)]
    line_rate: Option<f64>,
    /// Do not say on standard error what was written
    #[arg(long)]
    quiet: bool,
}

/// Writes the page, and figures if they are asked for.
///
/// # Errors
/// A file is no result, or there is no place for the page but that of a result.
pub(super) fn report(arguments: &ReportArguments) -> Result<Exit, Failure> {
    let read = |path: &PathBuf| Source::read(path).map_err(Failure::error);
    if let Some(result) = arguments.results.iter().find(|result| is_same(result, &arguments.output))
    {
        return Err(Failure::Usage(format!(
            "-o {}: the page would take the place of the result {}; choose another place",
            arguments.output.display(),
            result.display()
        )));
    }
    let mut sources = arguments.results.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    tell_apart(&mut sources);
    let options = Options {
        sizes: arguments.sizes.as_ref().map(|sizes| sizes.as_slice().to_vec()).unwrap_or_default(),
        line_rate: arguments.line_rate.map(|bits| bits / 8.0),
    };
    let drawn = draw(&sources, &options);
    let file = ResultFile::create(&arguments.output, Content::Result, &StopSignal::new());
    let file = file.map_err(Failure::error)?;
    file.finish_as(drawn.page.as_bytes()).map_err(Failure::error)?;
    if let Some(folder) = &arguments.svg {
        let failed = |path: &Path, error: std::io::Error| {
            let path = path.display();
            Failure::Error(format!(
                "cannot write to {path}: {error}; choose another folder with --svg"
            ))
        };
        fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        for (name, content) in &drawn.figures {
            let path = folder.join(format!("{name}.svg"));
            fs::write(&path, content).map_err(|error| failed(&path, error))?;
        }
    }
    if !arguments.quiet {
        let (path, figures) = (arguments.output.display(), drawn.figures.len());
        say(format_args!("{path}: a page with {figures} figures"));
    }
    Ok(Exit::Complete)
}

/// Whether both are names of one file that holds what it was given.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((metadata.dev(), metadata.ino()))
    };
    place(one).is_some_and(|one| Some(one) == place(other))
}
