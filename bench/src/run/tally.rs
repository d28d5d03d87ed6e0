//! The rounds of one cell, added up.

use std::collections::BTreeMap;

use super::{
    figures::{latency, over_rounds, split, sum},
    phases::PhaseTally,
};
use crate::{
    engine::Borne,
    plan::{Arrivals, Cell, Pattern, TransportName},
    report::{
        Assign, CellRecord, CellSettings, Counters, CpuCost, LatencyKind, LoadRecord, Loss, Memory,
        Path, PayloadCheck, RoundRecord, Status, Stopped, StoppedBy, TcpRecord, TensorRecord,
        Throughput,
    },
    session::{SliceError, SliceRecord},
    stats::Histogram,
    transport::{Split, StopReason},
};

/// Rounds of one cell so far.
#[derive(Debug)]
pub(super) struct Tally {
    cell: Cell,
    failed: Option<(Status, String)>,
    paths: Option<(Path, Path)>,
    // Boxed, and only there once something was measured: a plan may hold thousands of cells.
    round_trips: Option<Box<Histogram>>,
    // The load of an open loop, and how it was borne.
    offered: Option<(u64, Arrivals)>,
    borne: Option<Borne>,
    // Waits by time stamps, and how far off they may be.
    split: Option<(Box<Histogram>, u64)>,
    // What the assignments of each step took.
    assigned: Option<Box<Histogram>>,
    phases: Option<PhaseTally>,
    stopped: Option<StoppedBy>,
    elapsed: u64,
    depth: u32,
    warm_up: u64,
    timed: u64,
    lost: u64,
    returned: u64,
    counters: Option<(Counters, Counters)>,
    tcp: Option<TcpRecord>,
    cpu: CpuCost,
    memory: Memory,
    payload: PayloadCheck,
    settings: BTreeMap<String, String>,
    rounds: Vec<RoundRecord>,
    // Messages a second of each round.
    rates: Vec<f64>,
}

impl Tally {
    pub(super) fn new(cell: Cell) -> Self {
        Self {
            cell,
            failed: None,
            paths: None,
            round_trips: None,
            offered: None,
            borne: None,
            split: None,
            assigned: None,
            phases: None,
            stopped: None,
            elapsed: 0,
            depth: 0,
            warm_up: 0,
            timed: 0,
            lost: 0,
            returned: 0,
            counters: None,
            tcp: None,
            cpu: CpuCost {
                client_waiting_ns: Some(0),
                server_waiting_ns: Some(0),
                ..CpuCost::default()
            },
            memory: Memory::default(),
            payload: PayloadCheck { verified_messages: 0, corrupt_messages: 0 },
            settings: BTreeMap::new(),
            rounds: Vec::new(),
            rates: Vec::new(),
        }
    }

    pub(super) fn cell(&self) -> &Cell {
        &self.cell
    }

    /// The rule that ended it.
    pub(super) fn stopped(&mut self, by: StoppedBy) {
        self.stopped = Some(by);
    }

    /// The load of an open loop.
    pub(super) fn offered(&mut self, offered: Option<(u64, Arrivals)>) {
        self.offered = offered;
    }

    pub(super) fn add(
        &mut self,
        round: u32,
        depth: u32,
        measured: Result<SliceRecord, SliceError>,
    ) {
        let slice = match measured {
            Ok(slice) => slice,
            Err(error) => return self.fail(round, &error),
        };
        self.rounds.push(RoundRecord {
            round,
            messages: slice.timed,
            elapsed_ns: slice.elapsed,
            p50: slice.round_trips.quantile(0.5).value().map(|value| self.kind().of(value)),
        });
        self.rates.extend(self.rate(slice.timed, slice.returned, slice.elapsed));
        self.depth = depth;
        self.warm_up += slice.warm_up;
        self.timed += slice.timed;
        self.lost += slice.lost;
        self.returned += slice.returned;
        self.elapsed += slice.elapsed;
        self.cpu.client_ns += slice.cpu.client_ns;
        self.cpu.server_ns += slice.cpu.server_ns;
        let both = |all: Option<u64>, one: Option<u64>| Some(all? + one?);
        self.cpu.client_waiting_ns = both(self.cpu.client_waiting_ns, slice.cpu.client_waiting_ns);
        self.cpu.server_waiting_ns = both(self.cpu.server_waiting_ns, slice.cpu.server_waiting_ns);
        // None is less than any.
        let most = &mut self.memory;
        most.client_peak_bytes = most.client_peak_bytes.max(slice.memory.client_peak_bytes);
        most.server_peak_bytes = most.server_peak_bytes.max(slice.memory.server_peak_bytes);
        self.payload.verified_messages += slice.payload.verified_messages;
        self.payload.corrupt_messages += slice.payload.corrupt_messages;
        self.settings = slice.settings;
        self.paths = Some((slice.path, slice.peer_path));
        self.counters = Some(match self.counters.take() {
            None => (slice.counters, slice.peer_counters),
            Some((here, there)) => (sum(here, slice.counters), sum(there, slice.peer_counters)),
        });
        match (&mut self.tcp, slice.tcp) {
            (Some(all), Some(slice)) => all.add(slice),
            (none, slice) => *none = slice,
        }
        if let Some(phases) = slice.phases {
            PhaseTally::add(&mut self.phases, &phases);
        }
        match (&mut self.borne, slice.borne) {
            (Some(all), Some(slice)) => all.then(slice),
            (none, slice) => *none = slice,
        }
        if let Some(Split { waits, uncertainty }) = slice.split {
            let (all, worst) =
                self.split.get_or_insert_with(|| (Box::new(Histogram::new()), uncertainty));
            waits.into_iter().for_each(|wait| all.record(wait));
            *worst = uncertainty.max(*worst);
        }
        if let Some(assigned) = slice.assigned {
            match &mut self.assigned {
                Some(all) => all.merge(&assigned),
                none => *none = Some(Box::new(assigned)),
            }
        }
        if !slice.round_trips.is_empty() {
            match &mut self.round_trips {
                Some(all) => all.merge(&slice.round_trips),
                none => *none = Some(Box::new(slice.round_trips)),
            }
        }
    }

    fn fail(&mut self, round: u32, error: &SliceError) {
        let reason = match (error, round) {
            (SliceError::Failed(reason), round) if round > 0 => {
                format!("in round {} (rounds before it went well): {reason}", round + 1)
            }
            _ => error.to_string(),
        };
        // What ends the whole run takes nothing from the rounds that were finished.
        let ends_all =
            matches!(error, SliceError::Stopped(StopReason::Interrupted | StopReason::PeerLost(_)));
        if ends_all && !self.rounds.is_empty() {
            return;
        }
        self.failed = Some((error.status(), reason));
    }

    /// The cell as a document shows it now.
    pub(super) fn record(&self) -> CellRecord {
        let mut record = CellRecord {
            transport: self.cell.transport.clone(),
            pattern: self.cell.pattern,
            size: self.cell.size,
            reply: self.cell.reply,
            buffers: self.cell.buffers.clone(),
            roles: self.cell.roles,
            tensors: self.tensors(),
            variant: self.cell.variant.clone(),
            status: Status::Skipped,
            reason: None,
            path: self.paths.as_ref().map(|(here, _)| here.clone()),
            peer_path: self.paths.as_ref().map(|(_, there)| there.clone()),
            latency: None,
            phases: None,
            load: None,
            throughput: None,
            counters: None,
            peer_counters: None,
            tcp: None,
            cpu: None,
            memory: None,
            payload: None,
            loss: None,
            settings: None,
            failed_checks: Vec::new(),
            stopped: None,
            rounds: Vec::new(),
        };
        if let Some((status, reason)) = &self.failed {
            record.status = *status;
            record.reason = Some(reason.clone());
            return record;
        }
        if self.rounds.is_empty() {
            record.reason = Some("the run ended before its turn".to_owned());
            return record;
        }
        record.status = Status::Measured;
        let medians: Vec<f64> = self.rounds.iter().filter_map(|round| round.p50).collect();
        let round_trips = self.round_trips.as_deref();
        record.latency = round_trips.and_then(|all| latency(all, self.kind(), &medians));
        if let (Some(latency), Some((waits, uncertainty))) = (&mut record.latency, &self.split) {
            latency.split = Some(split(waits, *uncertainty, latency.p50, self.kind()));
        }
        record.phases = self.phases.as_ref().and_then(PhaseTally::record);
        record.throughput = self.throughput();
        record.load = self.load(record.throughput.as_ref());
        if let Some((here, there)) = &self.counters {
            record.counters = Some(here.clone());
            record.peer_counters = Some(there.clone());
        }
        record.tcp.clone_from(&self.tcp);
        record.cpu = Some(self.cpu);
        record.memory = Some(self.memory);
        record.payload = Some(self.payload);
        record.loss =
            self.cell.is_lossy().then_some(Loss { sent: self.timed + self.lost, lost: self.lost });
        record.settings = Some(CellSettings {
            depth: match (&self.cell.transport, self.cell.pattern) {
                (TransportName::Verbs(_), _)
                | (_, Pattern::Latency | Pattern::Fetch | Pattern::Calls | Pattern::Ps)
                | (_, Pattern::TensorPush | Pattern::TensorFetch) => Some(self.depth),
                _ => None,
            },
            warm_up_messages: self.warm_up,
            messages: self.timed,
            transport: self.settings.clone(),
        });
        record.rounds.clone_from(&self.rounds);
        record.stopped = self.stopped.map(|by| Stopped { by, half_width: record.half_width() });
        record
    }

    /// What the steps of tensors move, and its figures once there are any.
    fn tensors(&self) -> Option<TensorRecord> {
        let tensors = self.cell.tensors.as_ref()?;
        let planned = TensorRecord::planned(tensors, self.cell.servers());
        let Some(rate) = self.throughput().filter(|_| self.failed.is_none()) else {
            return Some(planned);
        };
        let assigned = self.assigned.as_deref();
        let times = assigned.and_then(|all| latency(all, LatencyKind::RoundTrip, &[]));
        let pushed = self.cell.pattern == Pattern::TensorPush;
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

    fn kind(&self) -> LatencyKind {
        if self.cell.is_full_round_trip() {
            LatencyKind::RoundTrip
        } else {
            LatencyKind::HalfRoundTrip
        }
    }

    fn load(&self, throughput: Option<&Throughput>) -> Option<LoadRecord> {
        let ((rate, arrivals), borne) = self.offered.zip(self.borne)?;
        Some(LoadRecord {
            arrivals,
            offered_per_s: rate as f64,
            achieved_per_s: throughput.map(|throughput| throughput.messages_per_s),
            bound: borne.bound,
            most_in_flight: borne.most_in_flight,
            held_back: borne.held_back,
            given_up: borne.given_up,
            sustained: !borne.overloaded,
        })
    }

    /// Totals by total time; absent if the clock did not advance.
    fn throughput(&self) -> Option<Throughput> {
        let messages_per_s = self.rate(self.timed, self.returned, self.elapsed)?;
        let size = self.cell.size as f64;
        let interval = over_rounds(&self.rates);
        Some(Throughput {
            bytes_per_s: messages_per_s * size,
            messages_per_s,
            interval_95: interval.map(|ends| ends.map(|end| end * size)),
        })
    }

    /// Messages a second, of operations and what came back in `elapsed` nanoseconds.
    fn rate(&self, timed: u64, returned: u64, elapsed: u64) -> Option<f64> {
        let messages = timed.saturating_mul(self.cell.messages_each()) + returned;
        (elapsed > 0).then(|| messages as f64 * 1e9 / elapsed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Absent;

    fn tally(pattern: Pattern) -> Tally {
        let transport = "tcp@loopback".parse().unwrap();
        Tally::new(Cell::new(transport, pattern, 1000))
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
        let mut tally = tally(Pattern::Latency);
        tally.add(0, 1, slice(&[1000; 10]));
        tally.add(1, 1, slice(&[3000; 10]));
        let record = tally.record();
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
        let mut tally = tally(Pattern::Latency);
        tally.add(0, 1, waiting(vec![600; 20], 80));
        tally.add(1, 1, waiting(vec![600; 20], 120));
        let split = tally.record().latency.unwrap().split.unwrap();
        // Half of a round trip holds half of a wait.
        assert_eq!((split.samples, split.host_p50, split.wire_p50), (40, Some(300.0), Some(700.0)));
        assert_eq!((split.host_p99, split.uncertainty), (None, 60.0));
        let mut tally = super::tests::tally(Pattern::Latency);
        tally.add(0, 1, slice(&[2000; 40]));
        assert_eq!(tally.record().latency.unwrap().split, None);
    }

    #[test]
    fn a_failed_round_leaves_no_figure() {
        let mut tally = tally(Pattern::Latency);
        tally.add(0, 1, slice(&[1000; 30]));
        tally.add(1, 1, Err(SliceError::Failed("cut".to_owned())));
        let record = tally.record();
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
            let mut tally = super::tests::tally(Pattern::Latency);
            tally.add(0, 1, ended());
            assert_eq!(tally.record().status, alone);
            let mut tally = super::tests::tally(Pattern::Latency);
            tally.add(0, 1, slice(&[1000; 30]));
            tally.add(1, 1, ended());
            assert_eq!(tally.record().status, Status::Measured);
        }
    }
}
