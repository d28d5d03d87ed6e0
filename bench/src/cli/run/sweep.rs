//! `--sweep`: settings that are varied, and what the options give for each combination.
//!
//! A combination is read by the parser of the command line itself, as if its options had been typed:
//! whatever an option takes, refuses or excludes, so does its axis.

use std::{collections::BTreeMap, ffi::OsString};

use clap::{ArgAction, CommandFactory as _, Parser as _, parser::ValueSource};

use super::{
    RunArguments,
    arguments::{ArrivalsName, Rate},
};
use crate::{
    cli::{Cli, Command, Failure, find_option, one_line},
    plan::{
        Axis, MOST_SIZES, MOST_VARIANTS, Plan, SizeError, Sizes, Sweep, Think, Value, Variant,
        parse_bytes,
    },
    session::{Settings, Variants},
};

/// An axis with the values that were typed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Varied {
    axis: Axis,
    values: Vec<Value>,
}

/// `qp=1,2,4`, `depth=1:64:x4`, `completions=poll,events`.
pub(super) fn parse_varied(text: &str) -> Result<Varied, String> {
    let (name, list) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not AXIS=VALUE,VALUE; the axes are {}", axes()))?;
    let axis =
        Axis::parse(name).ok_or_else(|| format!("`{name}` is no axis; the axes are {}", axes()))?;
    let mut values = Vec::new();
    for part in list.split(',') {
        for value in expand(axis, part.trim())? {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    Ok(Varied { axis, values })
}

fn axes() -> String {
    Axis::all().map(Axis::name).collect::<Vec<_>>().join(", ")
}

/// A part between commas: a number or a range in the grammar of sizes, or a word.
fn expand(axis: Axis, part: &str) -> Result<Vec<Value>, String> {
    // 0 is no size, and the value of an option or two.
    if let Ok(number) = part.parse() {
        return Ok(vec![Value::Number(number)]);
    }
    let is_range = part.contains(':') && axis != Axis::Think;
    if is_range && part.starts_with(|first: char| first.is_ascii_digit()) {
        let range = Sizes::parse(part).map_err(|error| not_a_range(part, error))?;
        return Ok(range.as_slice().iter().copied().map(Value::Number).collect());
    }
    match parse_bytes(part) {
        _ if part.is_empty() => Err("a value is empty".to_owned()),
        Ok(number) => Ok(vec![Value::Number(number)]),
        // The same pause may be written in several ways.
        Err(_) if axis == Axis::Think => {
            let pause = part.parse::<Think>().map(|think| think.to_string());
            Ok(vec![Value::Word(pause.unwrap_or_else(|_| part.to_owned()))])
        }
        Err(_) => Ok(vec![Value::Word(part.to_owned())]),
    }
}

/// Why `part` is no range: the grammar is that of sizes, the values need not be.
fn not_a_range(part: &str, error: SizeError) -> String {
    match error {
        SizeError::Zero => {
            format!("range `{part}` begins below 1; give 0 as a value of its own, as in 0,1:64")
        }
        SizeError::NotANumber(number) => {
            format!("`{number}` in `{part}` is no number; write 64, 4K or 1M (powers of 1024)")
        }
        SizeError::TooLarge(number) => format!("`{number}` in `{part}` does not fit in 64 bits"),
        SizeError::Descending(_) => {
            format!("range `{part}` ends below its start; write it as SMALLEST:LARGEST")
        }
        SizeError::Step(step) => format!(
            "step `{step}` of `{part}` does not advance; write x2 (times two) or +4 (plus four)"
        ),
        SizeError::Shape(_) | SizeError::Empty(_) => {
            format!("range `{part}` is not START:END, START:END:xFACTOR or START:END:+STEP")
        }
        SizeError::TooMany(_) => {
            format!("range `{part}` has more than {MOST_SIZES} values; take a larger step")
        }
    }
}

/// What is to be varied; `words` is the command line.
///
/// # Errors
/// An axis that is named twice, is set by its option as well, or is searched by `--tune`; more
/// combinations than [`MOST_VARIANTS`].
pub(super) fn sweep(arguments: &RunArguments, words: &[OsString]) -> Result<Sweep, Failure> {
    const SEARCHED: [Axis; 4] = [Axis::Depth, Axis::PostList, Axis::CqMod, Axis::InlineSize];
    let mut sweep = Sweep::default();
    for Varied { axis, values } in &arguments.sweep {
        let refused = |why: &str| Err(Failure::Usage(format!("--sweep {axis}: {why}")));
        if arguments.tune && SEARCHED.contains(axis) {
            return refused("--tune searches for it itself; leave out one of them");
        }
        if is_given(words, *axis) {
            return refused("its option gives it one value as well; leave out one of them");
        }
        if !sweep.add(*axis, values.clone()) {
            return refused("it is named twice; give all its values at once");
        }
    }
    if sweep.combinations() > MOST_VARIANTS {
        return Err(Failure::Usage(format!(
            "--sweep: {} combinations are more than {MOST_VARIANTS}; give fewer values",
            sweep.combinations()
        )));
    }
    Ok(sweep)
}

/// Whether the option of `axis` stands on the command line.
fn is_given(words: &[OsString], axis: Axis) -> bool {
    let command = Cli::command();
    let option = find_option(&command, "run", &format!("--{axis}")).map(clap::Arg::get_id);
    let Ok(matches) = command.clone().try_get_matches_from(words) else { return false };
    let source = |matches: &clap::ArgMatches| matches.value_source(option?.as_str());
    matches.subcommand_matches("run").and_then(source) == Some(ValueSource::CommandLine)
}

/// The settings of the run and of each variant that is planned.
///
/// # Errors
/// An axis that touches nothing that is planned; a value that its option does not take.
pub(in crate::cli) fn variants(
    arguments: &RunArguments,
    words: &[OsString],
    plan: &Plan,
) -> Result<Variants, Failure> {
    for (axis, _) in plan.sweep.axes() {
        if !plan.cells.iter().any(|cell| cell.variant.get(axis).is_some()) {
            return Err(Failure::Usage(format!(
                "--sweep {axis}: it makes no difference to the transports and patterns of this run"
            )));
        }
    }
    let mut own = BTreeMap::new();
    for variant in plan.cells.iter().map(|cell| &cell.variant) {
        if !variant.is_empty() && !own.contains_key(variant) {
            own.insert(variant.clone(), settings(&typed(words, variant)?));
        }
    }
    Ok(Variants::new(settings(arguments), own))
}

fn settings(arguments: &RunArguments) -> Settings {
    Settings {
        depth: arguments.depth,
        threads: arguments.threads,
        connections: arguments.connections,
        phases: arguments.phases.0,
        rate: arguments.rate.and_then(Rate::per_second),
        arrivals: arguments.arrivals.map(ArrivalsName::arrivals).unwrap_or_default(),
        think: arguments.think.and_then(|think| think.0),
        grpc: arguments.grpc.settings(),
        verbs: arguments.verbs.client(),
        peer_verbs: arguments.verbs.server(),
    }
}

/// The arguments as they were if the options of `variant` had been typed as well.
fn typed(words: &[OsString], variant: &Variant) -> Result<RunArguments, Failure> {
    let refused = |why: &str| {
        let variant = variant.to_string();
        Failure::Usage(format!("--sweep {}: {why}", variant.trim_matches(['[', ']'])))
    };
    let mut options = Vec::new();
    // What its option gave already is not typed twice.
    for (axis, value) in variant.iter().filter(|(axis, _)| !is_given(words, *axis)) {
        options.extend(option(axis, value).map_err(|why| refused(&why))?);
    }
    // Behind the subcommand's name, where no other option can take them for its value.
    let behind = words.iter().position(|word| word == "run").map_or(words.len(), |run| run + 1);
    let (before, after) = words.split_at(behind);
    match Cli::try_parse_from([before, options.as_slice(), after].concat()) {
        Ok(Cli { command: Command::Run(arguments), .. }) => Ok(*arguments),
        Ok(_) => Err(refused("another command")),
        Err(error) => Err(refused(&one_line(&error.to_string()))),
    }
}

/// What to type for a value on an axis; nothing for a switch that is off.
fn option(axis: Axis, value: &Value) -> Result<Option<OsString>, String> {
    let name = format!("--{axis}");
    let command = Cli::command();
    let switch = find_option(&command, "run", &name)
        .is_some_and(|option| matches!(option.get_action(), ArgAction::SetTrue));
    match value {
        value if !switch => Ok(Some(format!("{name}={value}").into())),
        value if value.is_yes() => Ok(Some(name.into())),
        Value::Word(word) if matches!(word.as_str(), "off" | "no") => Ok(None),
        value => Err(format!("`{value}` is neither on nor off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::CompletionMode;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn arguments(line: &str) -> RunArguments {
        typed(&words(line), &Variant::default()).unwrap()
    }

    fn shown(text: &str) -> Result<String, String> {
        let Varied { axis, values } = parse_varied(text)?;
        let values: Vec<_> = values.iter().map(Value::to_string).collect();
        Ok(format!("{axis}: {}", values.join(" ")))
    }

    #[test]
    fn every_axis_is_an_option() {
        let command = Cli::command();
        for axis in Axis::all() {
            assert!(find_option(&command, "run", &format!("--{axis}")).is_some(), "{axis}");
        }
    }

    #[test]
    fn values_are_numbers_ranges_and_words() {
        assert_eq!(shown("qp=1,4,4,2").unwrap(), "qp: 1 4 2");
        assert_eq!(shown("depth=1:64:x4").unwrap(), "depth: 1 4 16 64");
        assert_eq!(shown("mtu=256,1K:4K").unwrap(), "mtu: 256 1024 2048 4096");
        assert_eq!(shown("inline-size=0,64").unwrap(), "inline-size: 0 64");
        assert_eq!(shown("think=no,9us:exponential").unwrap(), "think: no 9us:exponential");
        assert_eq!(shown("think=50us,0.05ms,50us:constant").unwrap(), "think: 50us");
        assert_eq!(shown("completions=poll,events").unwrap(), "completions: poll events");
        for (text, word) in [
            ("qp", "AXIS=VALUE"),
            ("colour=red", "post-list"),
            ("qp=", "empty"),
            ("qp=1,,2", "empty"),
            ("depth=8:1", "below its start"),
            ("depth=1:1G:+1", "larger step"),
            ("rate=0:10:x2", "range `0:10:x2` begins below 1"),
            ("rate=10:1:x2", "range `10:1:x2` ends below its start"),
            ("rate=1:10:x1", "step `x1` of `1:10:x1`"),
            ("rate=1:1000Hz", "`1000Hz` in `1:1000Hz` is no number"),
            ("rate=1:2:3:4", "is not START:END"),
        ] {
            let refused = shown(text).unwrap_err();
            assert!(refused.contains(word), "{text}: {refused}");
            for foreign in ["size range", "size step", "size `", "size 0"] {
                assert!(!refused.contains(foreign), "{text}: {refused}");
            }
        }
    }

    #[test]
    fn a_variant_is_what_its_options_give() {
        let line = words("fabricbench run node2 --transport verbs-send -s 8 -q 2 -e");
        let variant = Variant::default()
            .with(Axis::Depth, Value::Number(32))
            .with(Axis::PostList, Value::Number(16))
            .with(Axis::Srq, Value::Word("on".to_owned()));
        let Settings { depth, threads, verbs, peer_verbs, .. } =
            settings(&typed(&line, &variant).unwrap());
        assert_eq!((depth, threads), (Some(32), 1));
        for side in [verbs, peer_verbs] {
            assert_eq!((side.queue_pairs, side.post_list, side.shared_receives), (2, 16, true));
            assert_eq!(side.completions, CompletionMode::Events);
        }
        let off = Variant::default().with(Axis::Srq, Value::Word("off".to_owned()));
        assert!(!settings(&typed(&line, &off).unwrap()).verbs.shared_receives);
    }

    #[test]
    fn what_the_option_refuses_is_refused_with_the_axis() {
        let line = words("fabricbench run -e");
        for (axis, value, expected) in [
            (Axis::Qp, Value::Number(70_000), &["--sweep qp=70000", "16384"][..]),
            (Axis::PostList, Value::Number(65), &["--sweep post-list=65", "64"]),
            (Axis::Mtu, Value::Number(1500), &["--sweep mtu=1500", "4096"]),
            (Axis::Threads, Value::Word("many".to_owned()), &["--sweep threads=many"]),
            (Axis::Srq, Value::Number(1), &["--sweep srq=1", "neither on nor off"]),
            (Axis::Completions, Value::Word("poll".to_owned()), &["completions=poll", "--events"]),
        ] {
            let variant = Variant::default().with(axis, value);
            let Err(Failure::Usage(refused)) = typed(&line, &variant) else { panic!("{variant}") };
            assert!(expected.iter().all(|word| refused.contains(word)), "{refused}");
            assert!(!refused.contains('\n'));
        }
    }

    #[test]
    fn an_axis_has_one_source_of_values() {
        for (line, word) in [
            ("fabricbench run --sweep qp=1,2 -q 4", "one value as well"),
            ("fabricbench run --use-srq --sweep srq=off", "one value as well"),
            ("fabricbench run --sweep qp=1 --sweep qp=2", "twice"),
            ("fabricbench run --tune --sweep depth=1,2", "--tune"),
            ("fabricbench run --sweep depth=1:64:+1 --sweep qp=1:64:+1", "4096 combinations"),
        ] {
            let Err(Failure::Usage(refused)) = sweep(&arguments(line), &words(line)) else {
                panic!("{line}")
            };
            assert!(refused.contains(word), "{refused}");
        }
        let line = "fabricbench run --tune --sweep qp=1,2 --sweep mtu=1K,4K";
        assert_eq!(sweep(&arguments(line), &words(line)).unwrap().combinations(), 4);
    }
}
