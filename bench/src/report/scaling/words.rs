//! Who is ahead where, in words: lines under a table.

use super::record::{
    Bound, Contender, CrossoverRecord, EfficiencyRecord, Lacks, LeadRecord, MarginRecord,
    ModelRecord, Question,
};
use crate::{
    plan::{Axis, DEFAULT_REPLY, LEAST_MESSAGES, Pattern, Roles, display_bytes},
    report::{LatencyKind, number::figure},
};

/// Lines under a table that nobody asked for.
const MOST_LINES: usize = 8;

/// Contenders whose efficiency is told in one line.
const MOST_NAMED: usize = 4;

/// All that a model says, in lines.
pub(crate) fn words(model: &ModelRecord) -> Vec<String> {
    leads(model).into_iter().chain(efficiencies(model)).collect()
}

/// As much of it as stands under a table without being asked for, and where the rest is.
pub(crate) fn few_words(model: &ModelRecord) -> Vec<String> {
    let mut lines = leads(model);
    if lines.len() > MOST_LINES {
        let left = lines.split_off(MOST_LINES - 1).len();
        lines.push(format!("who is ahead elsewhere: {left} more lines in --format long"));
    }
    lines.into_iter().chain(efficiencies(model)).collect()
}

fn leads(model: &ModelRecord) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, lead) in model.leads.iter().enumerate() {
        let same = |other: &&LeadRecord| other.question == lead.question;
        let all: Vec<_> = model.leads.iter().filter(same).collect();
        let before = model.leads.get(..index).unwrap_or_default();
        let before = before.iter().filter(|other| same(other)).rfind(|other| is_lead(other));
        let after = model.leads.get(index + 1).filter(same);
        // Told with the crossover that lies there.
        let is_told = !is_lead(lead)
            && lead.lacks.is_none()
            && lead.behind.is_empty()
            && before.zip(after).is_some_and(|(before, after)| {
                let passed = crossover(model, before, after);
                passed.is_some_and(|passed| {
                    lead.ahead.iter().all(|of| *of == passed.below || *of == passed.above)
                })
            });
        if !is_told {
            let passed = before.and_then(|before| crossover(model, before, lead));
            lines.push(line(lead, &all, passed));
        }
    }
    lines
}

fn is_lead(lead: &LeadRecord) -> bool {
    lead.ahead.len() == 1
}

/// Where who is ahead in `after` passes who is ahead in `before`.
fn crossover<'a>(
    model: &'a ModelRecord,
    before: &LeadRecord,
    after: &LeadRecord,
) -> Option<&'a CrossoverRecord> {
    let ([below], [above]) = (before.ahead.as_slice(), after.ahead.as_slice()) else { return None };
    model.crossovers.iter().find(|crossover| {
        crossover.question == after.question
            && crossover.below == *below
            && crossover.above == *above
            && crossover.size >= before.to as f64
            && crossover.size <= after.from as f64
    })
}

fn line(lead: &LeadRecord, all: &[&LeadRecord], passed: Option<&CrossoverRecord>) -> String {
    let question = name(&lead.question);
    let (from, to) = (display_bytes(lead.from), display_bytes(lead.to));
    let place = match (all.len(), lead.sizes) {
        (_, 1) => format!("at {from}"),
        (1, _) if is_lead(lead) => "at every size".to_owned(),
        (1, _) => "at any size".to_owned(),
        _ => format!("from {from} to {to}"),
    };
    let ahead = match lead.ahead.as_slice() {
        [ahead] => ahead,
        several => return format!("{question}: {}", undecided(lead, several, &place)),
    };
    let shown = match (lead.shown, lead.sizes) {
        (shown, sizes) if shown < sizes => {
            format!(" (a difference is shown at {shown} of {sizes} sizes)")
        }
        _ => String::new(),
    };
    let margins: Vec<_> =
        lead.margins.iter().map(|margin| words_of(&lead.question, margin, lead.sizes)).collect();
    let passed = passed.map_or_else(String::new, |passed| {
        let [low, high] = passed.interval_95.map(about);
        format!(
            "; it passes {} near {} (95 % interval {low} to {high})",
            passed.below,
            about(passed.size)
        )
    });
    format!("{question}: {ahead} is ahead {place}{shown}: {}{passed}", margins.join(", "))
}

/// That of `several` none is shown to be ahead, or why that cannot be told; and who is behind them.
fn undecided(lead: &LeadRecord, several: &[Contender], place: &str) -> String {
    let names = listed(several);
    let found = match (lead.lacks, several.len()) {
        (None, 2) => format!("no difference shown {place} between {names}"),
        (None, _) => format!("none of {names} is shown to be ahead {place}"),
        (Some(lacks), _) => {
            let lacks = match lacks {
                Lacks::Messages => {
                    format!(
                        "fewer than {LEAST_MESSAGES} messages a round; give a longer -D or more -n"
                    )
                }
                Lacks::Rounds => "fewer than 2 rounds; give more time".to_owned(),
            };
            format!("it cannot be told which of {names} is ahead {place}: {lacks}")
        }
    };
    match lead.behind.as_slice() {
        [] => found,
        behind => {
            let are = if behind.len() == 1 { "is" } else { "are" };
            format!("{found}; {} {are} behind", listed(behind))
        }
    }
}

/// Both figures, and their ratio.
fn words_of(question: &Question, margin: &MarginRecord, sizes: u64) -> String {
    let MarginRecord { size, time_ns, next, next_time_ns, ratio, .. } = margin;
    let place = match sizes {
        1 => String::new(),
        _ => format!("at {} ", display_bytes(*size)),
    };
    let (unit, of) = unit(question);
    let of = |time| figure(Some(of(time, *size as f64)));
    format!(
        "{place}{} against {} {unit} of {next} ({} times)",
        of(*time_ns),
        of(*next_time_ns),
        figure(Some(*ratio))
    )
}

/// What a question is called.
pub(super) fn name(question: &Question) -> String {
    let Question { pattern, latency, reply, roles, load } = question;
    let mut name = pattern.to_string();
    if *pattern == Pattern::Latency && *latency == Some(LatencyKind::RoundTrip) {
        name.push_str(" RT");
    }
    if let Some(reply) = reply.filter(|&reply| reply != DEFAULT_REPLY) {
        name.push_str(&format!(" for {}", display_bytes(reply)));
    }
    if let Some(Roles { servers, workers }) = roles.filter(|&roles| roles != Roles::default()) {
        name.push_str(&format!(" {workers} to {servers}"));
    }
    for axis in [Axis::Rate, Axis::Arrivals, Axis::Think] {
        if let Some(value) = load.get(axis) {
            name.push_str(&format!(" {axis}={value}"));
        }
    }
    name
}

type Shown = fn(f64, f64) -> f64;

/// The unit of a question's figures, and one in it from the time of a message in nanoseconds and its size.
fn unit(question: &Question) -> (&'static str, Shown) {
    match question.pattern {
        _ if question.latency.is_some() => ("us", |time, _| time / 1e3),
        Pattern::Rate => ("thousand/s", |time, _| 1e6 / time),
        Pattern::Calls | Pattern::Ps => ("calls/s", |time, _| 1e9 / time),
        _ => ("MB/s", |time, size| size * 1e3 / time),
    }
}

/// A size that need not be whole, to three digits.
pub(super) fn about(size: f64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| size >= f64::from(1u32 << shift));
    match unit {
        Some(&(shift, unit)) => format!("{} {unit}", figure(Some(size / f64::from(1u32 << shift)))),
        None => format!("{size:.0} B"),
    }
}

fn listed(all: &[Contender]) -> String {
    let names: Vec<_> = all.iter().map(ToString::to_string).collect();
    match names.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        others => others.concat(),
    }
}

/// A line a pattern and bound: the most that each transport reached.
fn efficiencies(model: &ModelRecord) -> Vec<String> {
    let mut groups: Vec<(&Question, Bound, Vec<&EfficiencyRecord>)> = Vec::new();
    for record in &model.efficiencies {
        let same = |group: &&mut (&Question, Bound, Vec<_>)| {
            (group.0, group.1) == (&record.question, record.bound)
        };
        match groups.iter_mut().find(same) {
            Some((.., records)) => records.push(record),
            None => groups.push((&record.question, record.bound, vec![record])),
        }
    }
    let line = |(question, bound, mut records): (&Question, Bound, Vec<&EfficiencyRecord>)| {
        let most = |record: &EfficiencyRecord| {
            record.sizes.iter().copied().max_by(|one, other| one.share.total_cmp(&other.share))
        };
        let share = |record: &EfficiencyRecord| most(record).map_or(0.0, |share| share.share);
        records.sort_by(|one, other| share(other).total_cmp(&share(one)));
        let left = records.len().saturating_sub(MOST_NAMED);
        records.truncate(MOST_NAMED);
        let each = records.iter().filter_map(|record| {
            let share = most(record)?;
            let above = if share.share > 1.0 { ", more than one thread copies" } else { "" };
            Some(format!(
                "{} up to {} % ({} of {} MB/s at {}{above})",
                record.of,
                figure(Some(share.share * 100.0)),
                figure(Some(share.bytes_per_s / 1e6)),
                figure(Some(share.bound_bytes_per_s / 1e6)),
                display_bytes(share.size)
            ))
        });
        let each: Vec<_> = each.collect();
        let what = match bound {
            Bound::Line => "the link's rate",
            Bound::MemoryCopy => "what one thread copies in this host's memory",
        };
        let left = if left > 0 { format!(", and {left} others less") } else { String::new() };
        format!("{} by {what}: {}{left}", name(question), each.join(", "))
    };
    groups.into_iter().map(line).collect()
}
