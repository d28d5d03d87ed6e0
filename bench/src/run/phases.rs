//! The phases of a cell's marked calls, added up over its rounds.

use crate::{
    report::{PhaseRecord, PhaseTimes, PhasesRecord, ServerPhases, WireAndPeer},
    session::{Phase, SampledCall, Served, SlicePhases},
    stats::Histogram,
};

/// The marked calls so far.
#[derive(Debug)]
pub(super) struct PhaseTally {
    one_in: u32,
    contradictory: u64,
    calls: Vec<SampledCall>,
}

impl PhaseTally {
    /// Adds those of a slice to those of the slices before it.
    pub(super) fn add(all: &mut Option<Self>, slice: SlicePhases) {
        let SlicePhases { one_in, contradictory, calls } = slice;
        let all = all.get_or_insert_with(|| Self { one_in, contradictory: 0, calls: Vec::new() });
        all.contradictory += contradictory;
        all.calls.extend(calls);
    }

    /// What they say; `None` if no call was marked.
    pub(super) fn record(&self) -> Option<PhasesRecord> {
        let whole: Times = self.calls.iter().map(SampledCall::whole).collect();
        let mut client = Phases::default();
        self.calls.iter().for_each(|call| client.add(&call.client));
        let served = self.served();
        let mut notes = Vec::new();
        match &served {
            None => notes.push(
                "the server's part is not known: it has no marks of these connections, whose addresses differ \
                 on both sides if something translates them"
                    .to_owned(),
            ),
            Some(served) if served.wire_and_peer.is_none() => notes.push(
                "wire and peer are not told apart: the sockets are not seen by themselves (TLS seals what \
                 passes them)"
                    .to_owned(),
            ),
            Some(_) => {}
        }
        if let Some(WireAndPeer { peer, overlapping: overlapping @ 1.., .. }) =
            served.as_ref().and_then(|served| served.wire_and_peer.as_ref())
        {
            notes.push(format!(
                "in {overlapping} of {} calls the peer began before the client's write had returned, and took \
                 longer than what was left: their wire counts as 0",
                peer.samples
            ));
        }
        Some(PhasesRecord {
            one_in: self.one_in,
            unit: "ns".to_owned(),
            samples: whole.count(),
            contradictory: self.contradictory,
            whole: whole.record()?,
            client: client.records(whole.sum),
            server: served,
            notes,
        })
    }

    fn served(&self) -> Option<ServerPhases> {
        let both = self.calls.iter().filter_map(|call| Some((call, call.server.as_ref()?)));
        let mut phases = Phases::default();
        let (mut samples, mut whole) = (0, 0);
        let (mut peer, mut wire, mut overlapping) = (Times::default(), Times::default(), 0);
        for (call, Served { phases: spans, serial }) in both {
            samples += 1;
            whole += u128::from(call.whole());
            phases.add(spans);
            if let (Some(both), Some(serial)) = (call.wire_and_peer(), serial) {
                peer.add(serial.time);
                wire.add(both.saturating_sub(serial.time));
                overlapping += u64::from(serial.time > both);
            }
        }
        let part = |name: &str, times: &Times| times.named(name, whole);
        let wire_and_peer = part("peer", &peer)
            .zip(part("wire", &wire))
            .map(|(peer, wire)| WireAndPeer { peer, wire, overlapping });
        (samples > 0).then(|| ServerPhases {
            samples,
            phases: phases.records(whole),
            wire_and_peer,
        })
    }
}

/// Times of each phase, in the order in which they first came.
#[derive(Debug, Default)]
struct Phases(Vec<(Phase, Times)>);

impl Phases {
    fn add(&mut self, spans: &[(Phase, u64)]) {
        for (phase, time) in spans {
            match self.0.iter_mut().find(|(known, _)| known == phase) {
                Some((_, times)) => times.add(*time),
                None => self.0.push((*phase, std::iter::once(*time).collect())),
            }
        }
    }

    fn records(&self, whole: u128) -> Vec<PhaseRecord> {
        let record = |(phase, times): &(Phase, Times)| times.named(&phase.to_string(), whole);
        self.0.iter().filter_map(record).collect()
    }
}

/// Times in nanoseconds.
#[derive(Debug, Default)]
struct Times {
    times: Vec<u64>,
    sum: u128,
}

impl FromIterator<u64> for Times {
    fn from_iter<I: IntoIterator<Item = u64>>(times: I) -> Self {
        let mut all = Self::default();
        times.into_iter().for_each(|time| all.add(time));
        all
    }
}

impl Times {
    fn add(&mut self, time: u64) {
        self.times.push(time);
        self.sum += u128::from(time);
    }

    fn count(&self) -> u64 {
        self.times.len() as u64
    }

    fn record(&self) -> Option<PhaseTimes> {
        let mut histogram = Histogram::new();
        self.times.iter().for_each(|&time| histogram.record(time));
        let at = |q: f64| histogram.quantile(q).value().map(|time| time as f64);
        Some(PhaseTimes { p50: at(0.5), p99: at(0.99), mean: histogram.mean()? })
    }

    /// As a phase of that name; `whole` is the time of all calls in nanoseconds.
    fn named(&self, name: &str, whole: u128) -> Option<PhaseRecord> {
        let share_percent = if whole == 0 { 0.0 } else { self.sum as f64 * 100.0 / whole as f64 };
        let (name, samples) = (name.to_owned(), self.count());
        Some(PhaseRecord { name, samples, times: self.record()?, share_percent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Serial, made_call};

    fn tally(calls: Vec<SampledCall>) -> PhasesRecord {
        let mut all = None;
        PhaseTally::add(&mut all, SlicePhases { one_in: 8, calls, contradictory: 1 });
        all.unwrap().record().unwrap()
    }

    fn served(serial: Option<u64>) -> Option<Served> {
        let serial = serial.map(|time| Serial { after: 0, time });
        Some(Served { phases: made_call(&[4, 6]).client, serial })
    }

    #[test]
    fn shares_are_of_the_whole_of_those_calls_that_are_counted() {
        let calls = (0..30).map(|_| made_call(&[10, 30, 60])).collect();
        let record = tally(calls);
        assert_eq!((record.samples, record.contradictory, record.one_in), (30, 1, 8));
        assert_eq!(
            (record.whole.p50, record.whole.p99, record.whole.mean),
            (Some(100.0), None, 100.0)
        );
        let shares: Vec<_> = record.client.iter().map(|phase| phase.share_percent).collect();
        assert_eq!(shares, [10.0, 30.0, 60.0]);
        assert!(record.server.is_none() && record.notes[0].contains("addresses"), "{record:?}");
    }

    #[test]
    fn wire_and_peer_are_divided_where_the_peer_fits() {
        // The fifth phase is "wire + peer", of 50 ns.
        let call = |serial| SampledCall { server: served(serial), ..made_call(&[1, 2, 3, 4, 50]) };
        let record = tally(vec![call(Some(20)), call(Some(70)), made_call(&[1, 2, 3, 4, 50])]);
        let server = record.server.unwrap();
        assert_eq!(server.samples, 2);
        let parts = server.wire_and_peer.unwrap();
        assert_eq!((parts.peer.times.mean, parts.wire.times.mean), (45.0, 15.0));
        assert_eq!((parts.peer.share_percent, parts.overlapping), (75.0, 1));
        assert!(
            record.notes[0].starts_with("in 1 of 2 calls the peer began"),
            "{:?}",
            record.notes
        );
        let sealed = tally(vec![call(None)]);
        assert!(sealed.server.unwrap().wire_and_peer.is_none() && sealed.notes[0].contains("TLS"));
    }
}
