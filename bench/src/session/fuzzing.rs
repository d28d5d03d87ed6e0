//! What a server tells of a slice.

use super::{Observation, sampled::sampled};
use crate::{
    clock::Clock,
    plan::{Cell, Pattern},
    transport::MarkedConnection,
};
use fabricbench_grpc::marks::{CallMarks, Mark};

/// A clock that stands at the end of the slice.
struct Ended;

impl Clock for Ended {
    fn now(&self) -> u64 {
        1_000_000
    }

    fn nanoseconds(&self, start: u64, end: u64) -> u64 {
        end.saturating_sub(start)
    }
}

/// An observation beside marks of our own of the same calls.
pub(crate) fn phases(input: &[u8]) {
    let Ok(Observation { marked, received, .. }) = serde_json::from_slice(input) else { return };
    let _ = received + received;
    let here: Vec<_> = marked
        .iter()
        .take(4)
        .map(|there| MarkedConnection {
            client: there.client,
            calls: (0..4).map(|call| own(call, 100 * call)).collect(),
        })
        .collect();
    for transport in ["tcp@lo", "grpc@lo", "grpc-lean@lo"] {
        let transport = transport.parse().expect("it is one");
        let cell = Cell::new(transport, Pattern::Calls, 64);
        let (calls, _) = sampled(&cell, &here, &marked, &Ended);
        for call in calls {
            let _ = (call.whole(), call.wire_and_peer(), call.server_begin());
            let Some(server) = &call.server else { continue };
            assert!(server.whole() <= 1_000_000, "longer than the slice");
            assert!(server.serial.is_none_or(|serial| serial.time <= server.whole()));
        }
    }
}

fn own(call: u64, begin: u64) -> CallMarks {
    let mut marks = CallMarks::new(call);
    for (mark, at) in Mark::ALL.into_iter().zip(begin..) {
        marks.set(mark, at);
    }
    marks
}
