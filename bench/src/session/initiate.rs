//! The client's end of a slice.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use fabricbench_ipoib::PathName;

use super::{
    Affinity, Conversation, Host, Kept, Observation, SliceError,
    device_watch::DeviceWatch,
    drive::{Driven, drive},
    ip_path,
    ip_path::describe,
};
use crate::{
    clock::Clock,
    engine::Task,
    observe::{CpuTime, PathWatch, Payload as PayloadMoved},
    plan::{Cell, GrpcTuning, Pattern, Payload, TransportName, VerbsName, VerbsOperation},
    report::{Counters, CpuCost, Path, PayloadCheck},
    stats::Histogram,
    transport::{
        Answer, Offer, Opening, Split, StopReason, StopSignal, TransportError, VerbsSettings,
        grpc::{GrpcCallsOpening, GrpcOpening, tuning},
        tcp::{TcpCallsOpening, TcpOpening},
        verbs::{Ask, Pair, PairPlan, Ping, Push, VerbsOpening, VerbsPort},
    },
};

/// What is measured next.
#[derive(Debug, Clone)]
pub struct Slice {
    /// The cell.
    pub cell: Cell,
    /// Messages in flight at the most.
    pub depth: u32,
    /// Seed of the payload.
    pub seed: u64,
    /// Threads on each side, each with connections of its own.
    pub threads: u32,
    /// Settings of verbs that were searched for, instead of those given.
    pub tuning: Option<VerbsTuning>,
    /// Processor the server is to use.
    pub server_cpu: Option<u32>,
    /// How long, and with what warm-up.
    pub task: Task,
}

/// Settings of a verbs push that can be searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerbsTuning {
    /// Messages in flight on each queue pair.
    pub depth: u32,
    /// Messages posted by one call.
    pub post_list: u32,
    /// Sends between two signalled ones.
    pub completion_moderation: u32,
    /// Largest message sent inline, in bytes; `None`: the usual.
    pub inline: Option<u32>,
}

impl VerbsTuning {
    fn apply(tuning: Option<Self>, settings: &VerbsSettings) -> VerbsSettings {
        let settings = settings.clone();
        match tuning {
            None => settings,
            Some(Self { post_list, completion_moderation, inline, .. }) => {
                VerbsSettings { post_list, completion_moderation, inline, ..settings }
            }
        }
    }
}

/// What one slice found.
#[derive(Debug)]
pub struct SliceRecord {
    /// Messages before the clock started.
    pub warm_up: u64,
    /// Messages that were timed and arrived.
    pub timed: u64,
    /// Messages of the timed ones that were lost.
    pub lost: u64,
    /// Messages that the far side pushed in the same time.
    pub returned: u64,
    /// Time they took, in nanoseconds.
    pub elapsed: u64,
    /// Round trips in nanoseconds, or times of calls; empty for a push.
    pub round_trips: Histogram,
    /// How long completions waited for the program, where that was asked for.
    pub split: Option<Split>,
    /// The client's path.
    pub path: Path,
    /// The server's path.
    pub peer_path: Path,
    /// The client's counters.
    pub counters: Counters,
    /// The server's counters.
    pub peer_counters: Counters,
    /// Processor time of both sides.
    pub cpu: CpuCost,
    /// Payload checks of both sides.
    pub payload: PayloadCheck,
    /// What was in force.
    pub settings: BTreeMap<String, String>,
}

/// Everything that stays the same from slice to slice on the client.
#[derive(Debug)]
pub struct Initiating<C> {
    /// The clock of every figure.
    pub clock: C,
    /// This host.
    pub here: Host,
    /// The server's host.
    pub there: Host,
    /// The server's address on the control connection.
    pub control: Option<IpAddr>,
    /// The port verbs use, or why there is none.
    pub port: Result<VerbsPort, TransportError>,
    /// Options of verbs for the client's side.
    pub verbs: VerbsSettings,
    /// Options of verbs for the server's side.
    pub peer_verbs: VerbsSettings,
    /// Processors of both sides; the calling thread is bound already.
    pub affinity: Affinity,
    /// Time to connect the data path.
    pub connect_timeout: Duration,
    /// Ends every wait.
    pub stop: StopSignal,
}

impl<C: Clock + Sync> Initiating<C> {
    /// Measures one slice.
    ///
    /// # Errors
    /// [`SliceError`]. The server has then been told to end the slice, unless it is lost.
    pub fn measure(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
    ) -> Result<SliceRecord, SliceError> {
        if let Some(reason) = slice.cell.impossible() {
            return Err(SliceError::Unsupported(reason));
        }
        match &slice.cell.transport {
            TransportName::Verbs(verbs) => self.over_verbs(conversation, slice, *verbs),
            TransportName::Grpc(kind, path) => self.over_grpc(conversation, slice, *kind, path),
            TransportName::Tcp(path) => self.over_tcp(conversation, slice, path),
        }
    }

    fn over_verbs(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        verbs: VerbsName,
    ) -> Result<SliceRecord, SliceError> {
        let port = self.port.as_ref().map_err(Clone::clone)?;
        // What the server lacks is known from its greeting: no need to try.
        if let Err(reason) = &self.there.rdma {
            return Err(SliceError::Unsupported(format!("on the server: {reason}")));
        }
        let plan = PairPlan {
            cell: slice.cell.clone(),
            verbs,
            payload: Payload::new(slice.seed),
            depth: slice.depth,
            settings: VerbsTuning::apply(slice.tuning, &self.verbs),
        };
        // For this cell only: others have no device to be near to.
        let kept = match self.affinity.client {
            Some(_) => None,
            None => port.processors(&self.verbs.memory).and_then(|near| Kept::on(&near)),
        };
        port.begin()?;
        let pairs = self.pairs(port, &plan, slice.threads)?;
        let operation = pairs.first().map_or(verbs.operation, Pair::operation);
        let peer = VerbsTuning::apply(slice.tuning, &self.peer_verbs);
        let path = port.path(None);
        let watch = DeviceWatch::begin(port.context.clone(), StopSignal::new(), self.stop.clone())?;
        let stop = watch.stop().clone();
        let mut measured = match (slice.cell.pattern, operation) {
            (Pattern::Latency, VerbsOperation::Write) => {
                let openings = openings::<Ping<true>>(pairs, &peer, &stop);
                self.run(conversation, slice, openings, path)
            }
            (Pattern::Latency, operation) if operation.is_one_sided() => {
                let openings = openings::<Ask>(pairs, &peer, &stop);
                self.run(conversation, slice, openings, path)
            }
            (Pattern::Latency, _) => {
                let openings = openings::<Ping<false>>(pairs, &peer, &stop);
                self.run(conversation, slice, openings, path)
            }
            (Pattern::Bidirectional, _) => {
                let openings = openings::<Push<true>>(pairs, &peer, &stop);
                self.run(conversation, slice, openings, path)
            }
            // A place for it: as yet, `TransportName::patterns` has no calls for verbs.
            (Pattern::Calls, _) => {
                Err(SliceError::Unsupported("verbs are not measured in calls".to_owned()))
            }
            (Pattern::Bandwidth | Pattern::Fetch | Pattern::Rate, _) => {
                let openings = openings::<Push<false>>(pairs, &peer, &stop);
                self.run(conversation, slice, openings, path)
            }
        }?;
        port.end()?;
        if let Some(kept) = kept {
            measured.settings.insert("client processors".to_owned(), kept.to_string());
        }
        Ok(measured)
    }

    /// A pair for each thread, all but the first on a context of its own.
    fn pairs(
        &self,
        port: &VerbsPort,
        plan: &PairPlan,
        threads: u32,
    ) -> Result<Vec<Pair>, TransportError> {
        let mut pairs = vec![Pair::open(port, plan.clone())?];
        for _ in 1..threads {
            pairs.push(Pair::open(&VerbsPort::open(&self.verbs)?, plan.clone())?);
        }
        Ok(pairs)
    }

    fn over_grpc(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        kind: GrpcTuning,
        name: &PathName,
    ) -> Result<SliceRecord, SliceError> {
        let choice = ip_path(&self.here, &self.there, name, self.control)?;
        let tuning = tuning(kind, slice.cell.largest_message(), slice.depth)?;
        let path = self.describe(&choice);
        let openings = (0..slice.threads.max(1)).map(|_| GrpcOpening {
            cell: slice.cell.clone(),
            payload: Payload::new(slice.seed),
            path: choice.clone(),
            timeout: self.connect_timeout,
            tuning: tuning.clone(),
            depth: slice.depth,
            stop: self.stop.clone(),
        });
        if slice.cell.pattern == Pattern::Calls {
            let openings = openings.map(GrpcCallsOpening).collect();
            return self.run(conversation, slice, openings, path);
        }
        self.run(conversation, slice, openings.collect(), path)
    }

    fn over_tcp(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        name: &PathName,
    ) -> Result<SliceRecord, SliceError> {
        let choice = ip_path(&self.here, &self.there, name, self.control)?;
        let path = self.describe(&choice);
        let openings = (0..slice.threads.max(1)).map(|_| TcpOpening {
            cell: slice.cell.clone(),
            payload: Payload::new(slice.seed),
            path: choice.clone(),
            timeout: self.connect_timeout,
            depth: slice.depth,
            stop: self.stop.clone(),
        });
        if slice.cell.pattern == Pattern::Calls {
            let openings = openings.map(TcpCallsOpening).collect();
            return self.run(conversation, slice, openings, path);
        }
        self.run(conversation, slice, openings.collect(), path)
    }

    fn describe(&self, choice: &fabricbench_ipoib::PathChoice) -> Path {
        describe(
            &self.here.interfaces,
            &choice.local_interface,
            choice.local_addr,
            Some(choice.reason.clone()),
        )
    }

    /// From the offer to the server's last word, the same for every transport.
    fn run<O>(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        openings: Vec<O>,
        mut path: Path,
    ) -> Result<SliceRecord, SliceError>
    where
        O: Opening,
        O::Initiator: Send,
    {
        let offers: Vec<Offer> = openings.iter().map(Opening::offer).collect();
        let (answers, peer_path) = conversation.prepare(slice, offers)?;
        let measured = connect(openings, &answers).and_then(|initiators| {
            if matches!(slice.cell.transport, TransportName::Verbs(_)) {
                path.mtu = opening_mtu(&path, &peer_path);
            }
            conversation.start()?;
            let watch = PathWatch::begin(&path).map_err(SliceError::Failed)?;
            let cpu = CpuTime::now();
            let driven = drive(&self.clock, slice, initiators)?;
            Ok((driven, watch, cpu.elapsed_ns()))
        });
        let (Driven { loops, round_trips, verified, split, mut settings, .. }, watch, cpu) =
            match measured {
                Ok(measured) => measured,
                Err(stopped @ SliceError::Stopped(_)) => return Err(stopped),
                Err(error) => {
                    let observation = conversation
                        .finish(None)
                        .map_err(|lost| with_error_before(&error, lost))?;
                    return Err(with_server_error(error, observation.error));
                }
            };
        let sent = loops.warm_up + loops.timed + loops.lost;
        let observation = conversation.finish(Some(sent))?;
        // What was sent again may have been lost on its way back.
        let proven = if slice.cell.is_lossy() { sent - loops.lost } else { sent };
        let counters =
            watch.finish(PayloadMoved::by_initiator(&slice.cell, proven, loops.returned_in_all));
        let payload = PayloadCheck {
            verified_messages: verified.0.saturating_add(observation.received.verified),
            corrupt_messages: verified.1.saturating_add(observation.received.corrupt),
        };
        check(slice, (sent, loops.returned_in_all), &observation, payload, &counters)?;
        for (side, cpu) in [("client", self.affinity.client), ("server", self.affinity.server)] {
            if let Some(cpu) = cpu {
                settings.insert(format!("{side} processor"), cpu.to_string());
            }
        }
        Ok(SliceRecord {
            warm_up: loops.warm_up,
            timed: loops.timed,
            lost: loops.lost,
            returned: loops.returned,
            elapsed: loops.elapsed,
            round_trips,
            split,
            path,
            peer_path,
            counters,
            peer_counters: observation.counters,
            cpu: CpuCost { client_ns: cpu, server_ns: observation.cpu_ns },
            payload,
            settings,
        })
    }
}

fn openings<I>(pairs: Vec<Pair>, peer: &VerbsSettings, stop: &StopSignal) -> Vec<VerbsOpening<I>> {
    let opening = |pair| VerbsOpening::new(pair, peer.clone(), stop.clone());
    pairs.into_iter().map(opening).collect()
}

fn connect<O: Opening>(
    openings: Vec<O>,
    answers: &[Answer],
) -> Result<Vec<O::Initiator>, SliceError> {
    if openings.len() != answers.len() {
        return Err(SliceError::Failed(format!(
            "the server made {} connections ready where {} were asked for",
            answers.len(),
            openings.len()
        )));
    }
    let connected = openings
        .into_iter()
        .zip(answers)
        .map(|(opening, answer)| opening.connect(answer).map_err(SliceError::from));
    connected.collect()
}

/// For verbs, both paths carry their port's MTU; the connection uses the smaller.
fn opening_mtu(path: &Path, peer: &Path) -> Option<u32> {
    match (path.mtu, peer.mtu) {
        (Some(here), Some(there)) => Some(here.min(there)),
        (one, other) => one.or(other),
    }
}

/// A server that is lost when it is told of an error: most likely both have one cause.
fn with_error_before(before: &SliceError, lost: SliceError) -> SliceError {
    match lost {
        SliceError::Stopped(StopReason::PeerLost(how)) => {
            SliceError::Stopped(StopReason::PeerLost(format!("{how} (before that, {before})")))
        }
        other => other,
    }
}

fn with_server_error(error: SliceError, server: Option<String>) -> SliceError {
    match (error, server) {
        (SliceError::Failed(here), Some(there)) => {
            SliceError::Failed(format!("{here}; the server says: {there}"))
        }
        (error, _) => error,
    }
}

/// What must be true of every figure before it is one.
fn check(
    slice: &Slice,
    (sent, returned): (u64, u64),
    observation: &Observation,
    payload: PayloadCheck,
    counters: &Counters,
) -> Result<(), SliceError> {
    let failed = |reason: String| Err(SliceError::Failed(reason));
    if let Some(error) = &observation.error {
        return failed(format!("the server says: {error}"));
    }
    let received = observation.received;
    let bytes = sent.saturating_mul(slice.cell.size);
    let arrived = (received.messages, received.bytes) == (sent, bytes);
    // Of a read the far side knows nothing; of what may be lost, the loss is in the record.
    if !(arrived || slice.cell.is_read() || slice.cell.is_lossy()) {
        return failed(format!(
            "{sent} messages of together {bytes} B were sent, and {} of together {} B received",
            received.messages, received.bytes
        ));
    }
    if received.returned != returned && !slice.cell.is_lossy() {
        return failed(format!(
            "the server pushed {} messages, and {returned} arrived here",
            received.returned
        ));
    }
    if payload.corrupt_messages > 0 {
        return failed(format!(
            "{} of {} verified messages arrived with other content than was sent",
            payload.corrupt_messages, payload.verified_messages
        ));
    }
    for (side, counters) in [("client", counters), ("server", &observation.counters)] {
        if let Some(proof) = &counters.proof
            && proof.holds == Some(false)
        {
            return failed(format!("path not proven on the {side}: {}", proof.text));
        }
    }
    Ok(())
}
