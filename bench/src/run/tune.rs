//! A short search for the settings in which a verbs push is fastest.

use std::time::Duration;

use super::Rules;
use crate::{
    clock::Clock,
    engine::{Task, WarmUp},
    plan::{Cell, Pattern, Stop, TransportName},
    session::{Conversation, Initiating, Slice, SliceError, VerbsTuning},
    transport::Patience,
};

/// Time of one trial. A search is some fifteen of them.
const TRIAL: Duration = Duration::from_millis(60);

/// Messages of a trial at the least.
const LEAST: u64 = 200;

/// A setting replaces the one before only if it is faster by this: less is noise.
const GAIN: f64 = 1.03;

/// What was found for a cell.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) tuning: VerbsTuning,
    /// For the record, in words.
    pub(super) text: String,
}

/// Whether there is anything to search for.
pub(super) fn applies(cell: &Cell) -> bool {
    matches!(cell.transport, TransportName::Verbs(_))
        && cell.pattern != Pattern::Latency
        && !cell.pattern.is_called()
}

/// Searches one setting after the other, each with the best of those before: the post list first,
/// on which moderation depends, then depth, then inline size.
///
/// # Errors
/// As a slice; a trial that cannot be done in some setting is passed over, but for the first.
pub(super) fn search<C: Clock + Clone + Send + Sync + 'static>(
    initiating: &Initiating<C>,
    conversation: &mut impl Conversation,
    slice: &Slice,
    rules: Rules,
) -> Result<Found, SliceError> {
    let verbs = &initiating.variants.of(&slice.cell.variant).verbs;
    let start = VerbsTuning {
        depth: slice.depth,
        post_list: verbs.post_list,
        completion_moderation: verbs.completion_moderation,
        inline: verbs.inline,
    };
    let mut trials = 0;
    let mut rate = |tuning: VerbsTuning| {
        trials += 1;
        trial(initiating, conversation, slice, rules, tuning)
    };
    let (mut best, mut fastest) = (start, rate(start)?);
    let first = fastest;
    for axis in AXES {
        for next in axis(best) {
            if next == best {
                continue;
            }
            match rate(next) {
                Ok(rate) if rate > fastest * GAIN => (best, fastest) = (next, rate),
                Ok(_) | Err(SliceError::Failed(_) | SliceError::Unsupported(_)) => {}
                Err(stopped) => return Err(stopped),
            }
        }
    }
    let text = format!(
        "{}: the best of {trials} trials of {TRIAL:?}, {:.2} times the rate of the settings given",
        options(best),
        fastest / first
    );
    Ok(Found { tuning: best, text })
}

/// What to type for the same.
fn options(tuning: VerbsTuning) -> String {
    let VerbsTuning { depth, post_list, completion_moderation, inline } = tuning;
    let inline = inline.map_or_else(String::new, |inline| format!(" -I {inline}"));
    format!("-l {post_list} -Q {completion_moderation} -t {depth}{inline}")
}

/// From the best so far, those to try instead.
const AXES: [fn(VerbsTuning) -> Vec<VerbsTuning>; 4] = [
    |best| {
        let lists = [1, 4, 16, 32].into_iter();
        // A completion a list at the least.
        lists
            .map(|post_list| VerbsTuning {
                post_list,
                completion_moderation: best.completion_moderation.max(post_list),
                depth: best.depth.max(4 * post_list),
                ..best
            })
            .collect()
    },
    |best| {
        let moderations = [1, 16, 64, 128].into_iter();
        moderations
            .map(|moderation| VerbsTuning {
                completion_moderation: moderation.max(best.post_list),
                depth: best.depth.max(4 * moderation),
                ..best
            })
            .collect()
    },
    |best| {
        let depths = [best.depth / 2, best.depth * 2, best.depth * 4].into_iter();
        depths
            .filter(|depth| (4 * best.post_list..=MOST_IN_FLIGHT).contains(depth))
            .map(|depth| VerbsTuning { depth, ..best })
            .collect()
    },
    |best| [Some(0), None].into_iter().map(|inline| VerbsTuning { inline, ..best }).collect(),
];

/// Deeper queues are asked for by name only.
const MOST_IN_FLIGHT: u32 = 1024;

/// Messages a second.
fn trial<C: Clock + Clone + Send + Sync + 'static>(
    initiating: &Initiating<C>,
    conversation: &mut impl Conversation,
    slice: &Slice,
    rules: Rules,
    tuning: VerbsTuning,
) -> Result<f64, SliceError> {
    let trial = Slice {
        depth: tuning.depth,
        tuning: Some(tuning),
        task: Task {
            stop: Stop::After(TRIAL),
            least_messages: LEAST,
            warm_up: WarmUp { messages: u64::from(tuning.depth), time: TRIAL / 4 },
            patience: Patience(rules.patience),
        },
        ..slice.clone()
    };
    let record = initiating.measure(conversation, &trial)?;
    Ok((record.timed + record.returned) as f64 * 1e9 / (record.elapsed.max(1)) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_keeps_four_completions_a_depth_and_one_a_list() {
        let start =
            VerbsTuning { depth: 128, post_list: 1, completion_moderation: 32, inline: None };
        let mut seen = vec![start];
        for axis in AXES {
            let from = seen.clone();
            for best in from {
                seen.extend(axis(best));
            }
        }
        assert!(seen.len() > 100);
        for tuning in seen {
            assert!(tuning.completion_moderation >= tuning.post_list, "{tuning:?}");
            assert!(tuning.depth >= 4 * tuning.post_list && tuning.depth <= 1024, "{tuning:?}");
        }
    }

    #[test]
    fn what_was_found_is_said_as_options() {
        let tuning =
            VerbsTuning { depth: 256, post_list: 16, completion_moderation: 64, inline: None };
        assert_eq!(options(tuning), "-l 16 -Q 64 -t 256");
        let tuning = VerbsTuning { inline: Some(0), ..tuning };
        assert_eq!(options(tuning), "-l 16 -Q 64 -t 256 -I 0");
    }

    #[test]
    fn a_ping_pong_has_nothing_to_search_for() {
        let cell = |transport: &str, pattern| Cell::new(transport.parse().unwrap(), pattern, 8);
        assert!(applies(&cell("verbs-write", Pattern::Rate)));
        assert!(!applies(&cell("verbs-write", Pattern::Latency)));
        assert!(!applies(&cell("tcp@loopback", Pattern::Bandwidth)));
    }
}
