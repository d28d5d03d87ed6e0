//! A slice over verbs.

use super::{Initiating, expect};
use crate::{
    clock::Clock,
    plan::{Pattern, Payload, VerbsName, VerbsOperation},
    report::Path,
    session::{
        Conversation, Kept, Slice, SliceError, SliceRecord, VerbsTuning, device_watch::DeviceWatch,
    },
    transport::{
        Answer, Pieces, StopSignal, TransportError, VerbsSettings,
        verbs::{
            Ask, Pair, PairPlan, Ping, Push, VerbsCalls, VerbsCallsOpening, VerbsOpening, VerbsPort,
        },
    },
};

impl<C: Clock + Clone + Send + Sync + 'static> Initiating<C> {
    pub(super) fn over_verbs(
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
        let settings = self.variants.of(&slice.cell.variant);
        let plan = PairPlan {
            cell: slice.cell.clone(),
            verbs,
            payload: Payload::new(slice.seed),
            depth: slice.depth,
            settings: VerbsTuning::apply(slice.tuning, &settings.verbs),
            answers: false,
        };
        // For this cell only: others have no device to be near to.
        let kept = match self.affinity.client {
            Some(_) => None,
            None => port.processors(&settings.verbs.memory).and_then(|near| Kept::on(&near)),
        };
        port.begin()?;
        let pairs = self.pairs(port, &plan, slice.threads)?;
        let operation = pairs.first().map_or(verbs.operation, Pair::operation);
        let mut peer = VerbsTuning::apply(slice.tuning, &settings.peer_verbs);
        // As this side cuts them, whatever the server's own limit.
        peer.pieces = pairs.first().map_or(Pieces::Whole, Pair::pieces);
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
            (Pattern::Calls | Pattern::Ps, _) => {
                self.calls_over_verbs(conversation, slice, pairs, (&peer, &stop), path)
            }
            // A place for it: as yet, `TransportName::patterns` has no tensors for verbs.
            (Pattern::TensorPush | Pattern::TensorFetch, _) => {
                Err(SliceError::Unsupported("verbs are not measured with tensors".to_owned()))
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

    /// Each pair makes calls: to a server of its own, or as a worker to all parameter servers.
    fn calls_over_verbs(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        pairs: Vec<Pair>,
        (peer, stop): (&VerbsSettings, &StopSignal),
        path: Path,
    ) -> Result<SliceRecord, SliceError> {
        let Some(roles) = slice.cell.roles else {
            let opening = |pair| VerbsCallsOpening::new(pair, peer.clone(), stop.clone());
            let openings = pairs.into_iter().map(opening).collect();
            return self.run(conversation, slice, openings, path);
        };
        let servers = 0..roles.servers;
        let offers = servers.map(|server| VerbsCalls::offer(&pairs, server, peer)).collect();
        let workers = |answers: &[Answer]| {
            expect(roles.servers as usize, answers)?;
            let worker = |(number, pair)| {
                VerbsCalls::to_all(pair, answers, number, stop.clone()).map_err(SliceError::from)
            };
            pairs.into_iter().enumerate().map(worker).collect()
        };
        self.run_by(conversation, slice, offers, workers, path)
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
            pairs.push(Pair::open(&VerbsPort::open(&plan.settings)?, plan.clone())?);
        }
        Ok(pairs)
    }
}

fn openings<I>(pairs: Vec<Pair>, peer: &VerbsSettings, stop: &StopSignal) -> Vec<VerbsOpening<I>> {
    let opening = |pair| VerbsOpening::new(pair, peer.clone(), stop.clone());
    pairs.into_iter().map(opening).collect()
}
