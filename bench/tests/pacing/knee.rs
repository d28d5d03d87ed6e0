//! Searches for rates on a virtual clock, where capacity and knee are known.

use std::time::Duration;

use fabricbench::{
    clock::VirtualClock,
    engine::{Offered, Task, measure_calls, measure_open},
    plan::{Arrivals, Axis, Cell, KneeRule, Pattern, Plan, Stop, Value},
    report::{Document, KneeRecord},
    run::Measuring,
    session::{Slice, SliceError, SliceRecord},
    stats::Histogram,
    transport::fake::FakeServer,
};

use crate::scripted::{Scripted, Times, plan, record, run};

/// Nanoseconds of a look at the server.
const LOOK: u64 = 2_000;

/// Measures calls of a server that takes as long for each as its message has bytes, in microseconds.
struct Served {
    clock: VirtualClock,
    arrivals: Arrivals,
    parallel: bool,
}

impl Measuring for Served {
    fn slice(&self, cell: &Cell, task: Task, seed: u64) -> Slice {
        let offered = match cell.variant.get(Axis::Rate) {
            Some(Value::Number(rate)) => Some((*rate, self.arrivals)),
            _ => None,
        };
        let depth = if offered.is_some() { 1024 } else { 8 };
        Slice { offered, depth, ..Scripted::new(1, none).slice(cell, task, seed) }
    }

    fn measure(&mut self, _: usize, slice: &mut Slice) -> Result<SliceRecord, SliceError> {
        let service = slice.cell.size * 1000;
        let depth = slice.depth as usize;
        let mut server = FakeServer::new(&self.clock, depth, service, LOOK);
        server.parallel = self.parallel;
        let mut times = Histogram::new();
        let task = slice.task;
        let Some((rate, arrivals)) = slice.offered else {
            let made = measure_calls(&mut server, &self.clock, &task, &mut times, || {})?;
            return Ok(record(times, (made.warm_up, made.timed, made.elapsed)));
        };
        let offered = Offered { rate: rate as f64, arrivals, phase: 0.0, seed: slice.seed };
        let made = measure_open(&mut server, &self.clock, &task, offered, &mut times, || {})?;
        let counts = (made.warm_up, made.timed, made.elapsed);
        Ok(SliceRecord { borne: Some(made.borne), ..record(times, counts) })
    }

    fn now(&self) -> u64 {
        fabricbench::clock::Clock::now(&self.clock)
    }
}

fn none(_: &Slice, _: u64, _: &mut crate::scripted::Random) -> Times {
    Times { set_up: 0, operation: 1.0 }
}

fn search(sizes: &str, rule: &str, arrivals: Arrivals, parallel: bool) -> Document {
    let searched: KneeRule = rule.parse().unwrap();
    let stop = Stop::After(Duration::from_secs(3));
    let mut plan = Plan { search: Some(searched), ..plan(Pattern::Calls, sizes, stop, 3, 5) };
    plan.cells.retain(|cell| cell.transport == plan.transports[0]);
    let served = &mut Served { clock: VirtualClock::default(), arrivals, parallel };
    run(&plan, served).0
}

#[track_caller]
fn near(found: Option<f64>, expected: f64, tolerance: f64) {
    let found = found.unwrap();
    assert!((found / expected - 1.0).abs() < tolerance, "{found} where {expected} is expected");
}

/// One after the other, evenly: nothing waits until the server is busy all the time.
#[test]
fn calls_that_come_evenly_have_their_knee_where_the_server_is_full() {
    // 100 and 200 us, so 10,000 and 5,000 a second, less what looking costs.
    let document = search("100,200", "p50:2", Arrivals::Constant, false);
    for (knee, full) in document.knees.iter().zip([10_000.0, 5_000.0]) {
        near(knee.capacity_per_s, full, 0.03);
        near(knee.sustained_per_s, full, 0.05);
        near(knee.knee_per_s, full, 0.05);
        near(knee.least, 1e9 / full, 0.05);
        assert!(knee.saturated && knee.reason.is_none(), "{knee:?}");
        let (borne, too_much) = (knee.sustained_per_s.unwrap(), knee.unsustained_per_s.unwrap());
        assert!(borne < too_much && (too_much - borne) / too_much < 0.03, "{knee:?}");
    }
    // The cells of each size stand behind its closed loop, by rate.
    let offered = |size: u64| -> Vec<f64> {
        let of = document.cells.iter().filter(|cell| cell.size == size);
        of.filter_map(|cell| Some(cell.load.as_ref()?.offered_per_s)).collect()
    };
    for size in [100, 200] {
        let rates = offered(size);
        assert!(rates.is_sorted() && (11..=18).contains(&rates.len()), "{rates:?}");
    }
    assert!(document.cells[0].load.is_none());
    assert!(document.cells.iter().map(|cell| cell.size).is_sorted());
    // All that was too much was so by intent.
    assert!(
        !document.warnings.iter().any(|warning| warning.contains("sustained")),
        "{:?}",
        document.warnings
    );
}

/// M/D/1 (Pollaczek and Khinchine): at a load r the mean time is 1 + r / 2 (1 - r) of a service. At the lowest
/// load, 0.1, that is 1.056, so that twice as much is reached at r = 0.690.
#[test]
fn a_queue_with_random_arrivals_has_the_knee_that_theory_says() {
    let document = search("100", "mean:2", Arrivals::Poisson, false);
    let knee = &document.knees[0];
    near(knee.least, 105_600.0, 0.05);
    // Between this rate and the next, which are not far apart.
    near(knee.knee_per_s, 6_900.0, 0.08);
    near(knee.beyond_per_s, 6_900.0, 0.08);
    assert!(knee.knee_per_s < knee.beyond_per_s, "{knee:?}");
    near(knee.sustained_per_s, 10_000.0, 0.08);
    assert!(knee.knee_per_s < knee.sustained_per_s);
}

#[test]
fn a_server_that_is_never_full_says_so() {
    let document = search("100", "p50:2", Arrivals::Constant, true);
    let KneeRecord { saturated, sustained_per_s, unsustained_per_s, capacity_per_s, .. } =
        document.knees[0];
    assert_eq!((saturated, unsustained_per_s), (false, None));
    // 8 in flight, 100 us each; offered is more, step by step.
    near(capacity_per_s, 80_000.0, 0.1);
    assert!(sustained_per_s > capacity_per_s.map(|capacity| 2.0 * capacity), "{sustained_per_s:?}");
    let text = fabricbench::report::table(&document, fabricbench::report::Look::PLAIN);
    assert!(text.contains("its limit was not found"), "{text}");
}
