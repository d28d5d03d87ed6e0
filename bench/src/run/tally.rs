//! The rounds of one cell, added up into its record.

use super::{
    figures::{latency, over_rounds, split, sum},
    phases::PhaseTally,
};
use crate::{
    engine::{Borne, Pauses},
    plan::{Cell, Pattern, Think, TransportName},
    report::{
        Assign, CellRecord, CellSettings, CpuCost, CpuUse, HistogramRecord, LatencyKind,
        LoadRecord, Loss, Memory, PayloadCheck, Per, RoundRecord, Status, Stopped, StoppedBy,
        TensorRecord, ThinkRecord, Throughput,
    },
    session::{Slice, SliceError, SliceRecord},
    stats::Packed,
    transport::{Split, StopReason},
};

/// What the rounds of one cell so far came to, beyond what its record holds: a plan may have thousands.
#[derive(Debug, Default)]
pub(super) struct Tally {
    round_trips: Packed,
    // How an open loop's load was borne.
    borne: Option<Borne>,
    // Rounds in which it was not.
    overloaded: u64,
    pauses: Option<Pauses>,
    // Waits by time stamps, and how far off they may be.
    split: Option<(Packed, u64)>,
    // What the assignments of each step took.
    assigned: Packed,
    phases: Option<PhaseTally>,
    elapsed: u64,
    timed: u64,
    lost: u64,
    returned: u64,
    // Messages a second of each round.
    rates: Vec<f64>,
}

/// The record of a cell of which nothing was measured.
pub(super) fn unmeasured(cell: &Cell, reason: &str) -> CellRecord {
    let planned = |tensors| TensorRecord::planned(tensors, cell.servers());
    CellRecord {
        transport: cell.transport.clone(),
        pattern: cell.pattern,
        size: cell.size,
        reply: cell.reply,
        buffers: cell.buffers.clone(),
        roles: cell.roles,
        tensors: cell.tensors.as_ref().map(planned),
        variant: cell.variant.clone(),
        status: Status::Skipped,
        reason: Some(reason.to_owned()),
        path: None,
        peer_path: None,
        latency: None,
        phases: None,
        load: None,
        think: None,
        throughput: None,
        counters: None,
        peer_counters: None,
        tcp: None,
        cpu: None,
        memory: None,
        payload: None,
        loss: None,
        settings: None,
        line_bytes_per_s: None,
        failed_checks: Vec::new(),
        stopped: None,
        rounds: Vec::new(),
    }
}

/// Says in `record` which rule ended its cell.
pub(super) fn stopped(record: &mut CellRecord, by: StoppedBy) {
    record.stopped = Some(Stopped { by, half_width: record.half_width() });
}

impl Tally {
    /// Adds what `slice` of `cell` came to in a round to `record`, which is then whole.
    pub(super) fn add(
        &mut self,
        record: &mut CellRecord,
        cell: &Cell,
        (round, slice): (u32, &Slice),
        measured: Result<SliceRecord, SliceError>,
    ) {
        let measured = match measured {
            Ok(measured) => measured,
            Err(error) => return self.fail(record, cell, round, &error),
        };
        (record.status, record.reason) = (Status::Measured, None);
        record.rounds.push(RoundRecord {
            round,
            messages: measured.timed,
            elapsed_ns: measured.elapsed,
            p50: measured.round_trips.quantile(0.5).value().map(|value| kind(cell).of(value)),
        });
        self.rates.extend(rate(cell, measured.timed, measured.returned, measured.elapsed));
        self.timed += measured.timed;
        self.lost += measured.lost;
        self.returned += measured.returned;
        self.elapsed += measured.elapsed;
        record.throughput = self.throughput(cell);
        let measured = self.add_times(record, cell, measured);
        self.overloaded += u64::from(measured.borne.is_some_and(|borne| borne.overloaded));
        match (&mut self.borne, measured.borne) {
            (Some(all), Some(slice)) => all.then(slice),
            (none, slice) => *none = slice,
        }
        match (&mut self.pauses, measured.pauses) {
            (Some(all), Some(slice)) => all.merge(slice),
            (none, slice) => *none = slice,
        }
        record.think = slice.think.zip(self.pauses).map(|(think, pauses)| thought(think, pauses));
        record.load = self.load(slice, record.throughput.as_ref());
        record.loss =
            cell.is_lossy().then_some(Loss { sent: self.timed + self.lost, lost: self.lost });
        let warm_up = record.settings.take().map_or(0, |settings| settings.warm_up_messages);
        record.settings = Some(CellSettings {
            depth: match (&cell.transport, cell.pattern) {
                (TransportName::Verbs(_), _)
                | (_, Pattern::Latency | Pattern::Fetch | Pattern::Calls | Pattern::Ps)
                | (_, Pattern::TensorPush | Pattern::TensorFetch) => Some(slice.depth),
                _ => None,
            },
            warm_up_messages: warm_up + measured.warm_up,
            messages: self.timed,
            waits: Some(measured.waits),
            transport: measured.settings.clone(),
        });
        add_costs(record, measured);
    }

    /// Adds the samples, and makes figures of them; returns the rest.
    fn add_times(
        &mut self,
        record: &mut CellRecord,
        cell: &Cell,
        mut measured: SliceRecord,
    ) -> SliceRecord {
        let all = self.round_trips.open();
        all.merge(&measured.round_trips);
        let medians: Vec<f64> = record.rounds.iter().filter_map(|round| round.p50).collect();
        record.latency = latency(all, kind(cell), &medians);
        if let Some(latency) = &mut record.latency {
            latency.histogram = Some(HistogramRecord::packed(&mut self.round_trips));
        }
        self.round_trips.pack();
        if let Some(Split { waits, uncertainty }) = measured.split.take() {
            let (all, worst) = self.split.get_or_insert_with(|| (Packed::default(), uncertainty));
            waits.into_iter().for_each(|wait| all.open().record(wait));
            *worst = uncertainty.max(*worst);
        }
        if let (Some(latency), Some((waits, uncertainty))) = (&mut record.latency, &mut self.split)
        {
            latency.split = Some(split(waits.open(), *uncertainty, latency.p50, kind(cell)));
            waits.pack();
        }
        if let Some(assigned) = measured.assigned.take() {
            self.assigned.open().merge(&assigned);
        }
        record.tensors = self.tensors(cell, record.throughput.as_ref());
        if let Some(phases) = measured.phases.take() {
            PhaseTally::add(&mut self.phases, &phases);
        }
        record.phases = self.phases.as_mut().and_then(PhaseTally::record);
        measured
    }

    fn fail(&mut self, record: &mut CellRecord, cell: &Cell, round: u32, error: &SliceError) {
        let reason = match (error, round) {
            (SliceError::Failed(reason), round) if round > 0 => {
                format!("in round {} (rounds before it went well): {reason}", round + 1)
            }
            _ => error.to_string(),
        };
        // What ends the whole run takes nothing from the rounds that were finished.
        let ends_all =
            matches!(error, SliceError::Stopped(StopReason::Interrupted | StopReason::PeerLost(_)));
        if ends_all && !record.rounds.is_empty() {
            return;
        }
        let (path, peer_path) = (record.path.take(), record.peer_path.take());
        let status = error.status();
        *record = CellRecord { status, path, peer_path, ..unmeasured(cell, &reason) };
        *self = Self::default();
    }

    /// What the steps of tensors move, and their figures.
    fn tensors(&mut self, cell: &Cell, throughput: Option<&Throughput>) -> Option<TensorRecord> {
        let tensors = cell.tensors.as_ref()?;
        let planned = TensorRecord::planned(tensors, cell.servers());
        let Some(rate) = throughput else { return Some(planned) };
        let times = latency(self.assigned.open(), LatencyKind::RoundTrip, &[]);
        self.assigned.pack();
        let pushed = cell.pattern == Pattern::TensorPush;
        Some(TensorRecord {
            transfer_mb_per_s: Some(rate.bytes_per_s / 1e6),
            tensors_per_s: Some(rate.messages_per_s * tensors.lengths.len() as f64),
            assign: times.map(|times| Assign {
                side: if pushed { "server" } else { "client" }.to_owned(),
                unit: times.unit,
                samples: times.samples,
                p50: times.p50,
                p99: times.p99,
                mean: times.mean,
            }),
            ..planned
        })
    }

    fn load(&self, slice: &Slice, throughput: Option<&Throughput>) -> Option<LoadRecord> {
        let ((rate, arrivals), borne) = slice.offered.zip(self.borne)?;
        Some(LoadRecord {
            arrivals,
            offered_per_s: rate as f64,
            achieved_per_s: throughput.map(|throughput| throughput.messages_per_s),
            bound: borne.bound,
            most_in_flight: borne.most_in_flight,
            held_back: borne.held_back,
            given_up: borne.given_up,
            sustained: !borne.overloaded,
            rounds_not_sustained: self.overloaded,
        })
    }

    /// Totals by total time; absent if the clock did not advance.
    fn throughput(&self, cell: &Cell) -> Option<Throughput> {
        let messages_per_s = rate(cell, self.timed, self.returned, self.elapsed)?;
        let size = cell.size as f64;
        let interval = over_rounds(&self.rates);
        Some(Throughput {
            bytes_per_s: messages_per_s * size,
            messages_per_s,
            interval_95: interval.map(|ends| ends.map(|end| end * size)),
        })
    }
}

fn thought(Think { mean, spread }: Think, pauses: Pauses) -> ThinkRecord {
    ThinkRecord {
        unit: "ns".to_owned(),
        asked: mean.as_nanos() as f64,
        spread,
        pauses: pauses.count,
        // There is one at the least.
        mean: pauses.sum as f64 / pauses.count.max(1) as f64,
        longest: pauses.longest as f64,
    }
}

/// Messages a second, of operations and what came back in `elapsed` nanoseconds.
fn rate(cell: &Cell, timed: u64, returned: u64, elapsed: u64) -> Option<f64> {
    let messages = timed.saturating_mul(cell.messages_each()) + returned;
    (elapsed > 0).then(|| messages as f64 * 1e9 / elapsed as f64)
}

fn kind(cell: &Cell) -> LatencyKind {
    if cell.is_full_round_trip() { LatencyKind::RoundTrip } else { LatencyKind::HalfRoundTrip }
}

/// Adds what was counted beside the figures.
fn add_costs(record: &mut CellRecord, slice: SliceRecord) {
    record.path = Some(slice.path);
    record.peer_path = Some(slice.peer_path);
    let all = record.counters.take().zip(record.peer_counters.take());
    let (here, there) = match all {
        None => (slice.counters, slice.peer_counters),
        Some((here, there)) => (sum(here, slice.counters), sum(there, slice.peer_counters)),
    };
    (record.counters, record.peer_counters) = (Some(here), Some(there));
    match (&mut record.tcp, slice.tcp) {
        (Some(all), Some(slice)) => all.add(slice),
        (none, slice) => *none = slice,
    }
    record.cpu = Some(match record.cpu {
        None => slice.cpu,
        Some(all) => both_rounds(&all, &slice.cpu),
    });
    let (per_message, per_byte) = (record.cpu_shares(Per::Message), record.cpu_shares(Per::Byte));
    if let Some(cpu) = &mut record.cpu {
        (cpu.per_message, cpu.per_byte) = (per_message, per_byte);
    }
    // None is less than any.
    let most = record.memory.unwrap_or_default();
    record.memory = Some(Memory {
        client_peak_bytes: most.client_peak_bytes.max(slice.memory.client_peak_bytes),
        server_peak_bytes: most.server_peak_bytes.max(slice.memory.server_peak_bytes),
    });
    let before = record.payload.map_or((0, 0), |all| (all.verified_messages, all.corrupt_messages));
    record.payload = Some(PayloadCheck {
        verified_messages: before.0.saturating_add(slice.payload.verified_messages),
        corrupt_messages: before.1.saturating_add(slice.payload.corrupt_messages),
    });
}

/// The processor time of two rounds, of which a server may say anything; shares are of all of them, and made anew.
fn both_rounds(one: &CpuCost, other: &CpuCost) -> CpuCost {
    let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
    let uses = |one: Option<CpuUse>, other: Option<CpuUse>| Some(one?.and(other?));
    CpuCost {
        client_ns: one.client_ns.saturating_add(other.client_ns),
        server_ns: one.server_ns.saturating_add(other.server_ns),
        client_waiting_ns: sum(one.client_waiting_ns, other.client_waiting_ns),
        server_waiting_ns: sum(one.server_waiting_ns, other.server_waiting_ns),
        client: uses(one.client, other.client),
        server: uses(one.server, other.server),
        per_message: None,
        per_byte: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::{Task, WarmUp},
        plan::Stop,
        report::{Absent, Counters, Path, Wait, Waits},
        stats::Histogram,
        transport::Patience,
    };
    use std::{collections::BTreeMap, time::Duration};

    /// A latency whose rounds are added one after the other.
    struct Rounds {
        cell: Cell,
        tally: Tally,
        record: CellRecord,
    }

    impl Rounds {
        fn new() -> Self {
            let cell = Cell::new("tcp@loopback".parse().unwrap(), Pattern::Latency, 1000);
            Self { record: unmeasured(&cell, "not yet"), tally: Tally::default(), cell }
        }

        fn add(&mut self, round: u32, measured: Result<SliceRecord, SliceError>) {
            let slice = Slice {
                cell: self.cell.clone(),
                depth: 1,
                offered: None,
                think: None,
                seed: 1,
                threads: 1,
                connections: 1,
                phases: None,
                tuning: None,
                server_cpu: None,
                task: Task {
                    stop: Stop::default(),
                    least_messages: 7,
                    warm_up: WarmUp::default(),
                    patience: Patience(Duration::from_secs(1)),
                },
            };
            self.tally.add(&mut self.record, &self.cell, (round, &slice), measured);
        }
    }

    fn path() -> Path {
        Path {
            kind: crate::report::PathKind::Loopback,
            device: None,
            port: None,
            interface: Some("lo".to_owned()),
            emulated: false,
            backing: None,
            address: None,
            mtu: None,
            chosen: None,
        }
    }

    fn slice(samples: &[u64]) -> Result<SliceRecord, SliceError> {
        let mut round_trips = Histogram::new();
        samples.iter().for_each(|&sample| round_trips.record(sample));
        let counters = Counters { interface_tx_bytes: Some(10), ..Counters::default() };
        Ok(SliceRecord {
            warm_up: 1,
            timed: samples.len() as u64,
            lost: 0,
            returned: 0,
            elapsed: samples.iter().sum(),
            borne: None,
            pauses: None,
            split: None,
            assigned: None,
            phases: None,
            round_trips,
            path: path(),
            peer_path: path(),
            counters: counters.clone(),
            peer_counters: counters,
            tcp: None,
            cpu: CpuCost { client_ns: 1, server_ns: 2, ..CpuCost::default() },
            mhz: [None; 2],
            waits: Waits { client: Wait::Polls, server: Wait::Sleeps },
            memory: Memory {
                client_peak_bytes: Some(samples.len() as u64),
                server_peak_bytes: None,
            },
            payload: PayloadCheck { verified_messages: 1, corrupt_messages: 0 },
            settings: BTreeMap::new(),
        })
    }

    #[test]
    fn rounds_add_up_to_one_distribution_and_one_rate() {
        let mut rounds = Rounds::new();
        rounds.add(0, slice(&[1000; 10]));
        rounds.add(1, slice(&[3000; 10]));
        let record = rounds.record;
        let latency = record.latency.unwrap();
        assert_eq!((latency.samples, latency.min, latency.max), (20, 500.0, 1500.0));
        assert_eq!((latency.p50, latency.mean), (Some(500.0), 1000.0));
        // Half of 1000 either way, times the root of 20 / 19.
        let deviation = 500.0 * (20.0 / 19.0_f64).sqrt();
        assert!((latency.stddev.unwrap() - deviation).abs() < 1e-9, "{:?}", latency.stddev);
        assert_eq!(latency.p99, None);
        assert_eq!(latency.absent["p99"], Absent { needs_samples: 1000, has_samples: 20 });
        let rate = record.throughput.unwrap();
        assert_eq!(rate.messages_per_s, 500_000.0, "20 round trips in 40 us");
        assert_eq!(record.counters.unwrap().interface_tx_bytes, Some(20));
        let most = Memory { client_peak_bytes: Some(10), server_peak_bytes: None };
        assert_eq!(record.memory, Some(most), "no sum, but the most");
        assert_eq!(record.rounds.len(), 2);
    }

    #[test]
    fn a_latency_is_split_by_what_completions_waited() {
        let waiting = |waits: Vec<u64>, uncertainty| {
            let mut slice = slice(&[2000; 40]).unwrap();
            slice.split = Some(Split { waits, uncertainty });
            Ok(slice)
        };
        let mut rounds = Rounds::new();
        rounds.add(0, waiting(vec![600; 20], 80));
        rounds.add(1, waiting(vec![600; 20], 120));
        let split = rounds.record.latency.unwrap().split.unwrap();
        // Half of a round trip holds half of a wait.
        assert_eq!((split.samples, split.host_p50, split.wire_p50), (40, Some(300.0), Some(700.0)));
        assert_eq!((split.host_p99, split.uncertainty), (None, 60.0));
        let mut rounds = Rounds::new();
        rounds.add(0, slice(&[2000; 40]));
        assert_eq!(rounds.record.latency.unwrap().split, None);
    }

    #[test]
    fn a_failed_round_leaves_no_figure() {
        let mut rounds = Rounds::new();
        rounds.add(0, slice(&[1000; 30]));
        rounds.add(1, Err(SliceError::Failed("cut".to_owned())));
        let record = rounds.record;
        assert_eq!(record.status, Status::Failed);
        assert_eq!(record.latency, None);
        assert!(record.reason.unwrap().contains("in round 2"));
    }

    #[test]
    fn what_ends_the_run_keeps_the_finished_rounds() {
        let lost = StopReason::PeerLost("silent".to_owned());
        for (reason, alone) in [(StopReason::Interrupted, Status::Skipped), (lost, Status::Failed)]
        {
            let ended = || Err(SliceError::Stopped(reason.clone()));
            let mut rounds = Rounds::new();
            rounds.add(0, ended());
            assert_eq!(rounds.record.status, alone);
            let mut rounds = Rounds::new();
            rounds.add(0, slice(&[1000; 30]));
            rounds.add(1, ended());
            assert_eq!(rounds.record.status, Status::Measured);
        }
    }
}
