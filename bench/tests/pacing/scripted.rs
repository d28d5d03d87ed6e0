//! A run by a script: slices cost what it says, on a virtual clock.

#![allow(dead_code, reason = "each of several test programs uses a part of it")]

use std::{collections::BTreeMap, time::Duration};

use fabricbench::{
    clock::{Clock, VirtualClock},
    engine::{Task, WarmUp, measure_bandwidth, measure_latency},
    plan::{Cell, Pattern, Plan, Sizes, Stop},
    report::{
        CellRecord, Counters, CpuCost, Document, Environment, Memory, Path, PathKind, PayloadCheck,
        PlanRecord, ResultFile, SCHEMA, Wait, Waits,
    },
    run::{Beginning, Measuring, Progress, Rules, RunError, carry_out},
    session::{Slice, SliceError, SliceRecord},
    stats::Histogram,
    transport::fake::{FakeInitiator, Step},
};

/// A seeded source of numbers, so that a test that fails does so again.
pub struct Random(pub u64);

impl Random {
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

/// Nanoseconds of one slice: set-up before it, and each operation in the mean.
pub struct Times {
    pub set_up: u64,
    pub operation: f64,
}

/// What measures by a script.
pub struct Scripted<F> {
    pub clock: VirtualClock,
    pub random: Random,
    /// Of a slice that begins at a time in nanoseconds.
    pub times: F,
    /// How many different times the operations of a slice take.
    pub spread: u32,
    /// What every slice says was in force.
    pub settings: BTreeMap<String, String>,
}

/// As many settings, and as long ones, as a cell over gRPC has.
pub fn usual_settings() -> BTreeMap<String, String> {
    let setting = |index| (format!("setting of a transport {index}"), format!("{index} as given"));
    (0..25).map(setting).collect()
}

impl<F: FnMut(&Slice, u64, &mut Random) -> Times> Scripted<F> {
    pub fn new(seed: u64, times: F) -> Self {
        let (clock, settings) = (VirtualClock::default(), BTreeMap::new());
        Self { clock, random: Random(seed), times, spread: 7, settings }
    }
}

impl<F: FnMut(&Slice, u64, &mut Random) -> Times> Measuring for Scripted<F> {
    fn slice(&self, cell: &Cell, task: Task, seed: u64) -> Slice {
        Slice {
            cell: cell.clone(),
            depth: 1,
            offered: None,
            think: None,
            seed,
            threads: 1,
            connections: 1,
            phases: None,
            tuning: None,
            server_cpu: None,
            task,
        }
    }

    fn measure(&mut self, _: usize, slice: &mut Slice) -> Result<SliceRecord, SliceError> {
        let Times { set_up, operation } = (self.times)(slice, self.clock.now(), &mut self.random);
        self.clock.advance(set_up);
        // A tenth to and fro, so that samples differ, and evenly, so that rounds do so as the script says only.
        let step = |index: u32| {
            let place = index * 3 % self.spread;
            let share = 0.9 + 0.2 * f64::from(place) / f64::from(self.spread - 1);
            Step::Takes((operation * share) as u64)
        };
        let script: Vec<_> = (0..self.spread).map(step).collect();
        let mut initiator = FakeInitiator::new(&self.clock, 1, slice.cell.size, script);
        let mut round_trips = Histogram::new();
        let (warm_up, timed, elapsed) = match slice.cell.pattern {
            Pattern::Latency => {
                let record = measure_latency(
                    &mut initiator,
                    &self.clock,
                    &slice.task,
                    &mut round_trips,
                    || {},
                )?;
                (record.warm_up, record.timed, record.elapsed)
            }
            _ => {
                let record = measure_bandwidth(&mut initiator, &self.clock, &slice.task, || {})?;
                (record.warm_up, record.timed, record.elapsed)
            }
        };
        let counts = (warm_up, timed, elapsed);
        Ok(SliceRecord { settings: self.settings.clone(), ..record(round_trips, counts) })
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }
}

/// What a slice found that measured these times: messages before, and timed ones, in so many nanoseconds.
pub fn record(round_trips: Histogram, (warm_up, timed, elapsed): (u64, u64, u64)) -> SliceRecord {
    let path = Path {
        kind: PathKind::Loopback,
        device: None,
        port: None,
        interface: Some("lo".to_owned()),
        emulated: false,
        backing: None,
        address: None,
        mtu: None,
        chosen: None,
    };
    SliceRecord {
        warm_up,
        timed,
        lost: 0,
        returned: 0,
        elapsed,
        round_trips,
        borne: None,
        pauses: None,
        split: None,
        assigned: None,
        phases: None,
        path: path.clone(),
        peer_path: path,
        counters: Counters::default(),
        peer_counters: Counters::default(),
        tcp: None,
        cpu: CpuCost::default(),
        mhz: [None; 2],
        waits: Waits { client: Wait::Polls, server: Wait::Sleeps },
        memory: Memory::default(),
        payload: PayloadCheck { verified_messages: 1, corrupt_messages: 0 },
        settings: BTreeMap::new(),
    }
}

/// Keeps what it is told.
#[derive(Default)]
pub struct Told {
    pub warnings: Vec<String>,
    pub done: usize,
    pub left: Vec<Option<Duration>>,
    /// Whether the plan was carried out to its end.
    pub has_ended: bool,
}

impl Progress for Told {
    fn begin(&mut self, beginning: &Beginning<'_>) {
        assert!(beginning.slice < beginning.of);
        self.left.push(beginning.left);
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(text.to_owned());
    }

    fn cell_done(&mut self, _: &CellRecord) {
        self.done += 1;
    }
}

pub const TRANSPORTS: [&str; 4] = ["verbs-write", "verbs-send", "grpc@ipoib", "tcp@ipoib"];

pub fn plan(pattern: Pattern, sizes: &str, stop: Stop, rounds: u32, seed: u64) -> Plan {
    let transports = TRANSPORTS.map(|name| name.parse().unwrap());
    Plan::new(&transports, &[pattern], &Sizes::parse(sizes).unwrap(), stop, rounds, seed)
}

/// Carries `plan` out.
pub fn run(plan: &Plan, measuring: &mut impl Measuring) -> (Document, Told) {
    into(plan, measuring, None)
}

/// The same with a file that is written meanwhile.
pub fn into(
    plan: &Plan,
    measuring: &mut impl Measuring,
    file: Option<&ResultFile>,
) -> (Document, Told) {
    let mut document = Document {
        schema: SCHEMA.to_owned(),
        fabricbench: "0".to_owned(),
        complete: false,
        started_unix_s: 0,
        measured_s: None,
        command: Vec::new(),
        plan: PlanRecord {
            transports: plan.transports.clone(),
            patterns: Vec::new(),
            sizes: Vec::new(),
            sweep: plan.sweep.clone(),
            stop: String::new(),
            warm_up: String::new(),
            rounds: plan.rounds,
            seed: plan.seed,
            precision: None,
            budget_s: None,
            estimate: None,
            loop_kind: "closed".to_owned(),
        },
        client: Environment::default(),
        server: None,
        warnings: Vec::new(),
        drift: None,
        advice: Vec::new(),
        model: None,
        knees: Vec::new(),
        cells: Vec::new(),
    };
    let rules =
        Rules { warm_up: WarmUp::default(), patience: Duration::from_secs(60), tune: false };
    let mut told = Told::default();
    match carry_out(plan, rules, measuring, &mut document, file, &mut told) {
        Err(RunError::BudgetSpent(_)) => {}
        ended => {
            ended.unwrap();
            told.has_ended = true;
        }
    }
    (document, told)
}
