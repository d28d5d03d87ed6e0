//! The client's end of a slice.

mod ip;
mod verbs;

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use fabricbench_ipoib::sockets::End;

use super::{
    Affinity, Conversation, Host, Slice, SliceError, SliceRecord, Variants,
    check::check,
    descriptors::admit_connections,
    drive::{Driven, drive},
    sampled::sampled,
    slice::SlicePhases,
    waits::waits,
};
use crate::{
    clock::Clock,
    observe::{self, CpuTime, PathWatch, Payload as PayloadMoved, PeakMemory, RunDelay},
    plan::TransportName,
    report::{CpuCost, Memory, Path, PayloadCheck, TcpRecord},
    transport::{
        Answer, Initiator, Offer, Opening, StopReason, StopSignal, TransportError, verbs::VerbsPort,
    },
};

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
    /// What cells are measured with.
    pub variants: Variants,
    /// Processors of both sides; the calling thread is bound already.
    pub affinity: Affinity,
    /// Time to connect the data path.
    pub connect_timeout: Duration,
    /// Ends every wait.
    pub stop: StopSignal,
}

impl<C: Clock + Clone + Send + Sync + 'static> Initiating<C> {
    /// Measures one slice.
    ///
    /// # Errors
    /// [`SliceError`]. The server has then been told to end the slice, unless it is lost.
    pub fn measure(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
    ) -> Result<SliceRecord, SliceError> {
        // Of settings that were searched for, none is impossible.
        let impossible = match slice.tuning {
            Some(_) => slice.cell.impossible(),
            None => self.variants.of(&slice.cell.variant).impossible(&slice.cell),
        };
        if let Some(reason) = impossible {
            return Err(SliceError::Unsupported(reason));
        }
        match &slice.cell.transport {
            TransportName::Verbs(verbs) => self.over_verbs(conversation, slice, *verbs),
            TransportName::Grpc(kind, path) => self.over_grpc(conversation, slice, *kind, path),
            TransportName::Tcp(path) => self.over_tcp(conversation, slice, path),
        }
    }

    /// From the offer to the server's last word, the same for every transport.
    fn run<O>(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        openings: Vec<O>,
        path: Path,
    ) -> Result<SliceRecord, SliceError>
    where
        O: Opening,
        O::Initiator: Send,
    {
        let offers: Vec<Offer> = openings.iter().map(Opening::offer).collect();
        let connect = |answers: &[Answer]| connect(openings, answers);
        self.run_by(conversation, slice, offers, connect, path)
    }

    /// The same with a worker a thread, made by `worker` of its number and the answers of all parameter
    /// servers; `opening` has the offer to each of them.
    fn run_workers<I: Initiator + Send>(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        opening: impl Opening,
        worker: impl Fn(u32, &[Answer]) -> Result<I, TransportError>,
        path: Path,
    ) -> Result<SliceRecord, SliceError> {
        let offers = vec![opening.offer(); slice.cell.servers() as usize];
        let workers = |answers: &[Answer]| {
            expect(slice.cell.servers() as usize, answers)?;
            let worker = |number| worker(number, answers).map_err(SliceError::from);
            (0..slice.threads).map(worker).collect()
        };
        self.run_by(conversation, slice, offers, workers, path)
    }

    /// The same with initiators that `connect` makes of the answers to `offers`.
    fn run_by<I: Initiator + Send>(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        offers: Vec<Offer>,
        connect: impl FnOnce(&[Answer]) -> Result<Vec<I>, SliceError>,
        mut path: Path,
    ) -> Result<SliceRecord, SliceError> {
        let asked = offers.iter().map(Offer::connections).sum();
        // Workers are threads as well, and their servers are fewer or more.
        admit_connections(asked, 1, slice.threads.into())?;
        let (answers, peer_path) = conversation.prepare(slice, offers.clone())?;
        let listeners: Vec<_> =
            offers.iter().zip(&answers).filter_map(|(offer, at)| offer.listener(at)).collect();
        let connected = connect(&answers).map_err(|error| error.while_("connecting the data path"));
        let measured = connected.and_then(|initiators| {
            if matches!(slice.cell.transport, TransportName::Verbs(_)) {
                path.mtu = opening_mtu(&path, &peer_path);
            }
            conversation.start()?;
            let watch = PathWatch::begin(&path).map_err(SliceError::Failed)?;
            let (cpu, delay, memory) = (CpuTime::now(), RunDelay::now(), PeakMemory::begin());
            let look = || {
                let cpu = (cpu.elapsed(), delay.elapsed_ns());
                Ok((cpu, connections(conversation, &listeners, asked)?))
            };
            let (driven, (cpu, tcp)) = drive(&self.clock, slice, initiators, look)?;
            Ok((driven, watch, cpu, memory.bytes(), tcp))
        });
        let (
            Driven {
                loops,
                round_trips,
                verified,
                borne,
                pauses,
                split,
                assigned,
                marked,
                mut settings,
                ..
            },
            watch,
            (client_cpu, client_waiting_ns),
            memory,
            tcp,
        ) = match measured {
            Ok(measured) => measured,
            Err(stopped @ SliceError::Stopped(_)) => return Err(stopped),
            Err(error) => {
                let observation =
                    conversation.finish(None).map_err(|lost| with_error_before(&error, lost))?;
                return Err(with_server_error(error, observation.error));
            }
        };
        let sent =
            (loops.warm_up + loops.timed + loops.lost).saturating_mul(slice.cell.messages_each());
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
        if let Some(client) = tcp.as_ref().and_then(|tcp| tcp.client.as_ref()) {
            settings.insert("established connections".to_owned(), client.connections.to_string());
        }
        let phases = slice.phases.map(|one_in| {
            let (calls, contradictory) =
                sampled(&slice.cell, &marked, &observation.marked, &self.clock);
            SlicePhases { one_in, calls, contradictory }
        });
        Ok(SliceRecord {
            phases,
            warm_up: loops.warm_up,
            timed: loops.timed,
            lost: loops.lost,
            returned: loops.returned,
            elapsed: loops.elapsed,
            round_trips,
            borne,
            pauses,
            split,
            assigned,
            path,
            peer_path,
            counters,
            peer_counters: observation.counters,
            tcp,
            cpu: CpuCost {
                client_ns: client_cpu.0,
                client: client_cpu.1,
                client_waiting_ns,
                server_ns: observation.cpu_ns,
                server: observation.cpu_use,
                server_waiting_ns: observation.waiting_ns,
                ..CpuCost::default()
            },
            mhz: [observe::processor_mhz(self.affinity.client), observation.mhz],
            waits: waits(slice, self.variants.of(&slice.cell.variant)),
            memory: Memory {
                client_peak_bytes: memory,
                server_peak_bytes: observation.peak_memory_bytes,
            },
            payload,
            settings,
        })
    }
}

fn connect<O: Opening>(
    openings: Vec<O>,
    answers: &[Answer],
) -> Result<Vec<O::Initiator>, SliceError> {
    expect(openings.len(), answers)?;
    let connected = openings
        .into_iter()
        .zip(answers)
        .map(|(opening, answer)| opening.connect(answer).map_err(SliceError::from));
    connected.collect()
}

/// Refuses answers of another number than the offers.
fn expect(offers: usize, answers: &[Answer]) -> Result<(), SliceError> {
    if offers == answers.len() {
        return Ok(());
    }
    Err(SliceError::Failed(format!(
        "the server made {} connections ready where {offers} were asked for",
        answers.len()
    )))
}

/// What both kernels know of the connections to the server's `listeners`, of which there should be
/// `asked`; `None` without any.
fn connections(
    conversation: &mut impl Conversation,
    listeners: &[SocketAddr],
    asked: u64,
) -> Result<Option<TcpRecord>, SliceError> {
    if listeners.is_empty() {
        return Ok(None);
    }
    let client = observe::connections(End::Remote, listeners);
    let server = conversation.connections()?.map_err(|reason| format!("on the server: {reason}"));
    let reason = client.as_ref().err().or(server.as_ref().err()).cloned();
    Ok(Some(TcpRecord { asked: Some(asked), client: client.ok(), server: server.ok(), reason }))
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
