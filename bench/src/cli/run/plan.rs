//! What the arguments of `fabricbench run` plan.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{
    RunArguments,
    arguments::{Rate, ServiceName},
    tensors,
};
use crate::{
    cli::Failure,
    plan::{
        Axis, Cell, KneeRule, LEAST_MESSAGES, Pattern, Plan, Roles, Service, Sizes, Stop, Sweep,
        TransportName, Value, VerbsName,
    },
    report::number::figure,
    run::planned_least,
    session::Variants,
    stats::LEAST_ROUNDS,
};

/// The whole numbers that jq and JavaScript read exactly: a seed from a document must make the same
/// run again.
const LARGEST_EXACT: u64 = (1 << 53) - 1;

pub(super) fn seed(arguments: &RunArguments) -> u64 {
    let clock = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |since| u64::try_from(since.as_nanos()).unwrap_or(1) & LARGEST_EXACT)
    };
    arguments.seed.unwrap_or_else(clock)
}

/// `local`: both sides are on this host, as far as is known.
pub(super) fn plan(
    arguments: &RunArguments,
    sweep: &Sweep,
    local: bool,
    seed: u64,
) -> Result<Plan, Failure> {
    let transports = transports(arguments, local)?;
    let mut patterns = Vec::new();
    if arguments.bidirectional {
        patterns.push(Pattern::Bidirectional);
    }
    for pattern in &arguments.pattern {
        for &pattern in pattern.patterns() {
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
    }
    if patterns.is_empty() {
        // What the option is of.
        let pauses = arguments.think.is_some_and(|think| think.0.is_some());
        patterns.extend(arguments.rate.map(|_| Pattern::Calls));
        patterns.extend(pauses.then_some(Pattern::Latency));
    }
    tensors::check(arguments, &patterns)?;
    let (sizes, shared) = sizes(arguments, seed)?;
    let stop = match (arguments.iterations, arguments.duration) {
        (Some(messages), _) => Stop::Messages(messages),
        (None, Some(time)) => Stop::After(time),
        (None, None) => Stop::default(),
    };
    let rounds = match stop {
        // A round without a message would be no round.
        Stop::Messages(all) => arguments.rounds.min(u32::try_from(all).unwrap_or(u32::MAX)),
        Stop::After(_) => arguments.rounds,
    };
    if arguments.precision.is_some() && (rounds as usize) < LEAST_ROUNDS {
        return Err(Failure::Usage(format!(
            "--precision looks at how rounds differ, which {rounds} cannot show; give {LEAST_ROUNDS} --rounds \
             (and messages, -n) at least"
        )));
    }
    let mut plan = Plan::new(&transports, &patterns, &sizes, stop, rounds, seed)
        .buffered(&arguments.buffers, &shared)
        .modelled(&tensors::models(arguments)?)
        .swept(sweep.clone());
    (plan.precision, plan.budget) = (arguments.precision, arguments.budget);
    plan.search = search(arguments, &plan)?;
    // What a row is must stand in it, wherever it is shown.
    let yes = |is_given: bool| is_given.then(|| Value::Word("yes".to_owned()));
    for (axis, given) in [
        (Axis::Serialized, yes(arguments.grpc.serialized)),
        (Axis::Tls, yes(arguments.grpc.tls)),
        (Axis::Assign, yes(arguments.grpc.assign)),
        (Axis::Coalesce, arguments.coalesce.as_ref().map(|given| Value::Word(given.to_string()))),
        (Axis::Rate, arguments.rate.and_then(Rate::per_second).map(Value::Number)),
        (
            Axis::Think,
            arguments.think.and_then(|think| think.0).map(|think| Value::Word(think.to_string())),
        ),
        (Axis::Arrivals, arguments.arrivals.map(|given| Value::Word(given.arrivals().to_string()))),
    ] {
        let Some(given) = given else { continue };
        let touched = plan.cells.iter_mut();
        for cell in touched.filter(|cell| axis.touches(&cell.transport, cell.pattern)) {
            let variant = std::mem::take(&mut cell.variant);
            cell.variant = variant.with(axis, given.clone());
        }
    }
    let has = |axis: Axis| plan.cells.iter().any(|cell| cell.variant.get(axis).is_some());
    let is_spread = arguments.arrivals.is_some() || has(Axis::Arrivals);
    if is_spread && arguments.rate.is_none() && !has(Axis::Rate) {
        return Err(Failure::Usage(
            "--arrivals says how the calls of a rate follow one another; give --rate N (or --sweep \
             rate=N,N) as well"
                .to_owned(),
        ));
    }
    let least = planned_least(&plan);
    if let Some(budget) = plan.budget.filter(|budget| least > budget.as_secs_f64()) {
        return Err(Failure::Usage(format!(
            "a --budget of {budget:?} cannot be kept: by the rates and pauses that were asked for, the fewest messages \
             ({LEAST_MESSAGES} a cell, without which there is no median) take {} s; give more",
            figure(Some(least))
        )));
    }
    let mut plan = tensors::settled(plan)?;
    if arguments.servers.or(arguments.workers).is_some() {
        if !plan.cells.iter().any(|cell| cell.pattern.has_roles()) {
            return Err(Failure::Usage(
                "--servers and --workers are those of parameter servers; give --pattern ps or tensor"
                    .to_owned(),
            ));
        }
        if arguments.threads > 1 && plan.cells.iter().all(|cell| cell.pattern.has_roles()) {
            return Err(Failure::Usage(
                "--threads: of the patterns ps and tensor the threads are workers; give --workers"
                    .to_owned(),
            ));
        }
        let (servers, workers) = (arguments.servers.unwrap_or(1), arguments.workers.unwrap_or(1));
        let least = u64::from(workers) * u64::from(plan.rounds);
        if let Stop::Messages(steps) = plan.stop
            && steps < least
        {
            return Err(Failure::Usage(format!(
                "-n {steps} leaves some of {workers} workers without a step in some of {} rounds: give \
                 {least} at least",
                plan.rounds
            )));
        }
        if servers * workers > MOST_PAIRS {
            return Err(Failure::Usage(format!(
                "{servers} servers for {workers} workers are {} connections; up to {MOST_PAIRS} can be \
                 served: give fewer --servers or --workers",
                servers * workers
            )));
        }
        plan = plan.with_roles(Roles { servers, workers });
    }
    match arguments.reply_size {
        Some(_) if !plan.cells.iter().any(|cell| cell.pattern.is_called()) => Err(Failure::Usage(
            "--reply-size is the size of a reply to a call; give --pattern calls or ps".to_owned(),
        )),
        Some(size) => Ok(plan.with_reply(size)),
        None => Ok(plan),
    }
}

/// The most connections of workers to parameter servers, which a server would refuse.
const MOST_PAIRS: u32 = 1024;

/// Sizes when nobody says otherwise, and with `-a`.
const USUAL_SIZES: &str = "2:8M:x4";
const ALL_SIZES: &str = "2:8M:x2";

/// By which rule knees are told, where rates are searched for.
///
/// # Errors
/// A rule without a search, a search of nothing, or one within a budget.
fn search(arguments: &RunArguments, plan: &Plan) -> Result<Option<KneeRule>, Failure> {
    let refused = |why: &str| Err(Failure::Usage(why.to_owned()));
    if arguments.rate != Some(Rate::Search) {
        return match arguments.knee {
            Some(_) => refused("--knee is the rule of --rate search; give that as well"),
            None => Ok(None),
        };
    }
    if arguments.budget.is_some() {
        return refused(
            "--rate search: how many rates it offers is not known beforehand, so that no --budget can be shared \
             out; give -D, the time of each",
        );
    }
    if !plan.cells.iter().any(|cell| Axis::Rate.touches(&cell.transport, cell.pattern)) {
        return refused("--rate search: there are no calls to be offered; give --pattern calls");
    }
    Ok(Some(arguments.knee.unwrap_or_default()))
}

/// All sizes, and those of them that buffers (or one) share.
///
/// # Errors
/// Sizes are given, and buffers that have their own.
fn sizes(arguments: &RunArguments, seed: u64) -> Result<(Sizes, Sizes), Failure> {
    let specs = &arguments.buffers;
    if let Some((_, twice)) = specs
        .iter()
        .enumerate()
        .find(|(index, spec)| specs.iter().take(*index).any(|earlier| earlier == *spec))
    {
        return Err(Failure::Usage(format!("--buffers {twice} is given twice")));
    }
    let read = |text| Sizes::parse(text).map_err(Failure::error);
    let given = match &arguments.sizes {
        _ if arguments.all => Some(read(ALL_SIZES)?),
        sizes => sizes.clone(),
    };
    let own: Vec<_> = specs.iter().filter(|spec| spec.has_own_size()).collect();
    if let [first, ..] = own[..]
        && own.len() == specs.len()
    {
        if given.is_some() {
            return Err(Failure::Usage(format!(
                "--buffers {} makes up a size of its own: leave --sizes (-s, -a) out, or give --buffers N, \
                 which splits them",
                first
            )));
        }
        let totals = own.iter().filter_map(|spec| spec.buffers(0, seed).total());
        return Ok((Sizes::of(totals.collect()), Sizes::of(Vec::new())));
    }
    let shared = match given {
        Some(sizes) => sizes,
        None => read(USUAL_SIZES)?,
    };
    let totals = own.iter().filter_map(|spec| spec.buffers(0, seed).total());
    let all = shared.as_slice().iter().copied().chain(totals);
    Ok((Sizes::of(all.collect()), shared))
}

/// Refuses a plan of which nothing can be measured, whatever the hosts, or none of what the settings
/// of a list of posts are for.
///
/// # Errors
/// Why not, and what would be possible.
pub(super) fn refuse_impossible(plan: &Plan, variants: &Variants) -> Result<(), Failure> {
    let reason = |cell: &Cell| variants.of(&cell.variant).impossible(cell);
    let listed = |cell: &&Cell| {
        Axis::PostList.touches(&cell.transport, cell.pattern) && cell.impossible().is_none()
    };
    let reasons = all(plan.cells.iter().map(reason))
        .or_else(|| all(plan.cells.iter().filter(listed).map(reason)));
    match reasons {
        None => Ok(()),
        Some(reasons) => Err(Failure::Usage(reasons.join("; "))),
    }
}

/// The most reasons that are told at once: one line is to stay one.
const MOST_REASONS: usize = 3;

/// The first of the different reasons if there is one for each, and for one at least.
fn all(reasons: impl Iterator<Item = Option<String>>) -> Option<Vec<String>> {
    let mut different = Vec::new();
    for reason in reasons {
        let reason = reason?;
        if different.len() < MOST_REASONS && !different.contains(&reason) {
            different.push(reason);
        }
    }
    (!different.is_empty()).then_some(different)
}

fn transports(arguments: &RunArguments, local: bool) -> Result<Vec<TransportName>, Failure> {
    let mut transports: Vec<TransportName> = Vec::new();
    let asked = arguments.service.map(ServiceName::service);
    let service = asked.unwrap_or(Service::Rc);
    for text in &arguments.transport {
        let named: Vec<TransportName> = match text.as_str() {
            "verbs" => VerbsName::all()
                .filter(|verbs| asked.is_none_or(|asked| verbs.service == asked))
                .map(TransportName::Verbs)
                .collect(),
            name => {
                let named = TransportName::parse(name, service)
                    .map_err(|error| Failure::Usage(format!("--transport: {error}")))?;
                vec![named]
            }
        };
        for transport in named {
            if transports.contains(&transport) {
                return Err(Failure::Usage(format!("transport {transport} is named twice")));
            }
            transports.push(transport);
        }
    }
    if transports.is_empty() {
        let names = if local { arguments.usual.local } else { arguments.usual.remote };
        // Nobody named them: what the service lacks is left out, and is no error.
        transports.extend(names.iter().filter_map(|name| TransportName::parse(name, service).ok()));
    }
    Ok(transports)
}
