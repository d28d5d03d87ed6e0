//! How long what the device had completed waited for the program (`--timestamps`): the device's own
//! time of each completion, placed on the host's clock.
//!
//! The two clocks are compared before and after a slice, each time by the quickest of several
//! readings of the device's clock between two of the host's; in between, one is a straight line of
//! the other, whatever the rates of the two crystals.

use std::time::Instant;

use fabricbench_verbs::Context;

use super::refused;
use crate::transport::{Split, TransportError};

/// Readings of which the quickest counts.
const READINGS: usize = 32;

/// Completions that are remembered: enough for the median and the 99th percentile.
const KEPT: usize = 4096;

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    /// The device's, in ticks.
    device: u64,
    /// The host's, in nanoseconds.
    host: u64,
}

/// The same, with how far off it may be.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Moment,
    /// Half of the time that the reading took, in nanoseconds.
    uncertainty: u64,
}

/// Completions of one slice, with the time of the device and of the program.
#[derive(Debug)]
pub(super) struct Splitter {
    context: Context,
    // Bits of the device's time that count.
    mask: u64,
    origin: Instant,
    begun: Reading,
    seen: Kept,
}

impl Splitter {
    /// Begins with a comparison of the clocks.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`]: the device does not tell its time.
    pub(super) fn begin(context: &Context, mask: u64) -> Result<Self, TransportError> {
        let origin = Instant::now();
        let begun = read(context, origin)?;
        Ok(Self { context: context.clone(), mask, origin, begun, seen: Kept::new() })
    }

    /// A completion that the program has in hand now, and that the device completed at `ticks`.
    #[inline]
    pub(super) fn sample(&mut self, ticks: u64) {
        self.seen.add(Moment { device: ticks, host: nanoseconds(self.origin) });
    }

    /// Compares the clocks again, and places what was seen between.
    pub(super) fn end(&self) -> Option<Split> {
        let ended = read(&self.context, self.origin).ok()?;
        split(self.seen.moments(), (self.begun, ended), self.mask)
    }
}

fn nanoseconds(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn read(context: &Context, origin: Instant) -> Result<Reading, TransportError> {
    let mut best: Option<Reading> = None;
    for _ in 0..READINGS {
        let before = nanoseconds(origin);
        let device = context.device_time().map_err(refused)?;
        let took = nanoseconds(origin) - before;
        if best.is_none_or(|best| took / 2 < best.uncertainty) {
            let at = Moment { device, host: before + took / 2 };
            best = Some(Reading { at, uncertainty: took / 2 });
        }
    }
    best.ok_or_else(|| super::failed("the device's clock was not read"))
}

/// Waits between the device's completion and the program, from `moments` between two comparisons.
/// `None` without any, or if the device's clock stood still.
fn split(moments: &[Moment], (begun, ended): (Reading, Reading), mask: u64) -> Option<Split> {
    let ticks = |to: u64| to.wrapping_sub(begun.at.device) & mask;
    let (whole, long) = (ticks(ended.at.device), ended.at.host.saturating_sub(begun.at.host));
    let place = |device: u64| {
        let along = u128::from(ticks(device)) * u128::from(long);
        let along = along.checked_div(u128::from(whole))?;
        begun.at.host.checked_add(u64::try_from(along).ok()?)
    };
    // Clocks that are compared to within an uncertainty may put a cause after its effect.
    let wait = |moment: &Moment| Some(moment.host.saturating_sub(place(moment.device)?));
    let waits = moments.iter().map(wait).collect::<Option<Vec<u64>>>()?;
    (!waits.is_empty())
        .then(|| Split { waits, uncertainty: begun.uncertainty.max(ended.uncertainty) })
}

/// A sample in fixed memory, evenly spread over a slice of any length: of every `stride`
/// completions the first; when it is full, every second is forgotten and the stride doubled.
#[derive(Debug)]
struct Kept {
    moments: Vec<Moment>,
    stride: u64,
    until_next: u64,
}

impl Kept {
    fn new() -> Self {
        Self { moments: Vec::with_capacity(KEPT), stride: 1, until_next: 0 }
    }

    #[inline]
    fn add(&mut self, moment: Moment) {
        if self.until_next > 0 {
            self.until_next -= 1;
            return;
        }
        if self.moments.len() == KEPT {
            let mut place = 0_usize;
            self.moments.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride *= 2;
        }
        self.until_next = self.stride - 1;
        self.moments.push(moment);
    }

    fn moments(&self) -> &[Moment] {
        &self.moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(device: u64, host: u64, uncertainty: u64) -> Reading {
        Reading { at: Moment { device, host }, uncertainty }
    }

    /// A clock of 156.25 MHz that is 40 millionths fast, and goes through its end in between.
    #[test]
    fn waits_are_found_whatever_the_rate_of_the_devices_clock() {
        let mask = (1 << 48) - 1;
        let ticks = |host: u64| ((mask - 1000) + host * 15_625_625 / 100_000_000) & mask;
        let ends = (reading(ticks(500), 500, 90), reading(ticks(1 << 30), 1 << 30, 120));
        let moments: Vec<_> = (1..1000_u64)
            .map(|i| Moment { device: ticks(i * 1_000_000), host: i * 1_000_000 + 300 + i })
            .collect();
        let split = split(&moments, ends, mask).unwrap();
        assert_eq!(split.uncertainty, 120);
        for (index, wait) in split.waits.iter().enumerate() {
            let expected = 301 + index as u64;
            // A tick is 6.4 ns.
            assert!(wait.abs_diff(expected) <= 14, "{wait} instead of {expected}");
        }
    }

    #[test]
    fn a_cause_after_its_effect_is_no_time_at_all() {
        let ends = (reading(0, 0, 50), reading(1000, 1000, 50));
        let early = [Moment { device: 520, host: 500 }];
        assert_eq!(split(&early, ends, u64::MAX).unwrap().waits, [0]);
    }

    #[test]
    fn without_completions_or_with_a_clock_that_stands_there_is_no_split() {
        let ends = (reading(0, 0, 50), reading(1000, 1000, 50));
        assert!(split(&[], ends, u64::MAX).is_none());
        let stands = (reading(7, 0, 50), reading(7, 1000, 50));
        assert!(split(&[Moment { device: 7, host: 9 }], stands, u64::MAX).is_none());
    }

    #[test]
    fn a_long_slice_is_sampled_evenly_in_fixed_memory() {
        let mut kept = Kept::new();
        let all = 10 * KEPT as u64 + 3;
        (0..all).for_each(|host| kept.add(Moment { device: 0, host }));
        assert!(kept.moments().len() <= KEPT && kept.moments().len() > KEPT / 2);
        assert_eq!(kept.moments.capacity(), KEPT);
        let stride = kept.stride;
        for (index, moment) in kept.moments().iter().enumerate() {
            assert_eq!(moment.host, index as u64 * stride);
        }
    }
}
