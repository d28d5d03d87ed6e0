//! A slice over gRPC or TCP.

use fabricbench_ipoib::PathName;

use super::Initiating;
use crate::{
    clock::Clock,
    plan::{GrpcTuning, Pattern, Payload},
    report::Path,
    session::{Conversation, Slice, SliceError, SliceRecord, ip_path, ip_path::describe},
    transport::{
        Answer, Marking, Steps,
        grpc::{GrpcCalls, GrpcCallsOpening, GrpcOpening, GrpcTensors, tuning},
        tcp::{TcpCalls, TcpCallsOpening, TcpOpening, TcpTensors},
    },
};

impl<C: Clock + Clone + Send + Sync + 'static> Initiating<C> {
    pub(super) fn over_grpc(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        kind: GrpcTuning,
        name: &PathName,
    ) -> Result<SliceRecord, SliceError> {
        let choice = ip_path(&self.here, &self.there, name, self.control)?;
        let settings = self.variants.of(&slice.cell.variant).grpc;
        let tuning = tuning(kind, settings.serialized, slice.cell.largest_message(), slice.depth)?;
        let path = self.describe(&choice);
        let opening = |connections| GrpcOpening {
            cell: slice.cell.clone(),
            payload: Payload::new(slice.seed),
            path: choice.clone(),
            timeout: self.connect_timeout,
            tuning: tuning.clone(),
            settings,
            marking: self.marking(slice),
            depth: slice.depth,
            connections,
            stop: self.stop.clone(),
        };
        if slice.cell.pattern == Pattern::Ps {
            let worker = |_, servers: &[Answer]| GrpcCalls::to_all(opening(1), servers);
            return self.run_workers(conversation, slice, opening(slice.threads), worker, path);
        }
        if slice.cell.pattern.is_of_tensors() {
            let steps = Steps::new(&slice.cell, Payload::new(slice.seed), slice.depth)?;
            let worker = |number, servers: &[Answer]| {
                GrpcTensors::connect(opening(1), &steps, number, servers)
            };
            return self.run_workers(conversation, slice, opening(slice.threads), worker, path);
        }
        let openings = (0..slice.threads.max(1)).map(|_| opening(slice.connections));
        if slice.cell.pattern == Pattern::Calls {
            let openings = openings.map(GrpcCallsOpening).collect();
            return self.run(conversation, slice, openings, path);
        }
        self.run(conversation, slice, openings.collect(), path)
    }

    pub(super) fn over_tcp(
        &self,
        conversation: &mut impl Conversation,
        slice: &Slice,
        name: &PathName,
    ) -> Result<SliceRecord, SliceError> {
        let choice = ip_path(&self.here, &self.there, name, self.control)?;
        let path = self.describe(&choice);
        let opening = |connections| TcpOpening {
            cell: slice.cell.clone(),
            payload: Payload::new(slice.seed),
            path: choice.clone(),
            timeout: self.connect_timeout,
            marking: self.marking(slice),
            depth: slice.depth,
            connections,
            stop: self.stop.clone(),
        };
        if slice.cell.pattern == Pattern::Ps {
            let worker = |_, servers: &[Answer]| TcpCalls::to_all(opening(1), servers);
            return self.run_workers(conversation, slice, opening(slice.threads), worker, path);
        }
        if slice.cell.pattern.is_of_tensors() {
            let steps = Steps::new(&slice.cell, Payload::new(slice.seed), slice.depth)?;
            let worker = |number, servers: &[Answer]| {
                TcpTensors::connect(opening(1), &steps, number, servers)
            };
            return self.run_workers(conversation, slice, opening(slice.threads), worker, path);
        }
        let openings = (0..slice.threads.max(1)).map(|_| opening(slice.connections));
        if slice.cell.pattern == Pattern::Calls {
            let openings = openings.map(TcpCallsOpening).collect();
            return self.run(conversation, slice, openings, path);
        }
        self.run(conversation, slice, openings.collect(), path)
    }

    /// How calls are marked, where that was asked for.
    fn marking(&self, slice: &Slice) -> Option<Marking> {
        let servers = slice.cell.roles.map_or(1, |roles| roles.servers);
        let connections = [slice.threads, slice.connections, servers].map(u64::from);
        Some(Marking::new(slice.phases?, connections.iter().product(), slice.seed, &self.clock))
    }

    fn describe(&self, choice: &fabricbench_ipoib::PathChoice) -> Path {
        describe(
            &self.here.interfaces,
            &choice.local_interface,
            choice.local_addr,
            Some(choice.reason.clone()),
        )
    }
}
