//! The phases of a cell's marked calls, added up over its rounds.

use crate::{
    report::{
        CellRecord, PhaseRecord, PhaseTimes, PhasesRecord, ServerPhases, Status, WireAndPeer,
    },
    session::{Phase, SampledCall, Served, SlicePhases, Span, Variants},
    stats::Packed,
};

/// What the marked calls so far took. The calls themselves are not kept: a run may have many rounds.
#[derive(Debug)]
pub(super) struct PhaseTally {
    one_in: u32,
    contradictory: u64,
    whole: Times,
    client: Phases,
    served: ServedTally,
}

/// A warning if there are cells whose calls were to be marked, and none was. `planned` are those of which
/// `cells` are the records.
pub(super) fn unmarked(cells: &[CellRecord], variants: &Variants) -> Option<String> {
    let asked = cells.iter().filter_map(|record| {
        let one_in = variants.of(&record.variant).phases?;
        (record.status == Status::Measured).then_some((one_in, record))
    });
    let (without, with): (Vec<_>, Vec<_>) = asked.partition(|(_, cell)| cell.phases.is_none());
    let one_in = without.iter().map(|(one_in, _)| one_in).min()?;
    Some(format!(
        "in {} of {} cells no call was marked (--phases {one_in}: one in so many); give a smaller number, or a \
         longer -D",
        without.len(),
        without.len() + with.len()
    ))
}

/// Of those calls of which the server's part is known.
#[derive(Debug, Default)]
struct ServedTally {
    samples: u64,
    /// The client's time of them, in nanoseconds.
    whole: u128,
    phases: Phases,
    peer: Times,
    wire: Times,
    overlapping: u64,
}

impl PhaseTally {
    /// Adds those of a slice to those of the slices before it.
    pub(super) fn add(all: &mut Option<Self>, slice: &SlicePhases) {
        let all = all.get_or_insert_with(|| Self {
            one_in: slice.one_in,
            contradictory: 0,
            whole: Times::default(),
            client: Phases::default(),
            served: ServedTally::default(),
        });
        all.contradictory += slice.contradictory;
        for call in &slice.calls {
            all.whole.add(call.whole());
            all.client.add(&call.client);
            if let Some(served) = &call.server {
                all.served.add(call, served);
            }
        }
    }

    /// What they say; `None` if no call was marked.
    pub(super) fn record(&mut self) -> Option<PhasesRecord> {
        let served = self.served.record();
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
        let (samples, sum) = (self.whole.count(), self.whole.sum());
        Some(PhasesRecord {
            one_in: self.one_in,
            unit: "ns".to_owned(),
            samples,
            contradictory: self.contradictory,
            whole: self.whole.record()?,
            client: self.client.records(sum),
            server: served,
            notes,
        })
    }
}

impl ServedTally {
    fn add(&mut self, call: &SampledCall, Served { phases, serial }: &Served) {
        self.samples += 1;
        self.whole += u128::from(call.whole());
        self.phases.add(phases);
        if let (Some(both), Some(serial)) = (call.wire_and_peer(), serial) {
            self.peer.add(serial.time);
            self.wire.add(both.saturating_sub(serial.time));
            self.overlapping += u64::from(serial.time > both);
        }
    }

    fn record(&mut self) -> Option<ServerPhases> {
        let whole = self.whole;
        let part = |name: &str, times: &mut Times| times.named(name, whole);
        let wire_and_peer = part("peer", &mut self.peer)
            .zip(part("wire", &mut self.wire))
            .map(|(peer, wire)| WireAndPeer { peer, wire, overlapping: self.overlapping });
        (self.samples > 0).then(|| ServerPhases {
            samples: self.samples,
            phases: self.phases.records(self.whole),
            wire_and_peer,
        })
    }
}

/// Times of each phase, in the order in which they first came.
#[derive(Debug, Default)]
struct Phases(Vec<(Phase, Times)>);

impl Phases {
    fn add(&mut self, spans: &[Span]) {
        for &(phase, time) in spans {
            match self.0.iter_mut().find(|(known, _)| *known == phase) {
                Some((_, times)) => times.add(time),
                None => {
                    let mut times = Times::default();
                    times.add(time);
                    self.0.push((phase, times));
                }
            }
        }
    }

    fn records(&mut self, whole: u128) -> Vec<PhaseRecord> {
        let record = |(phase, times): &mut (Phase, Times)| times.named(&phase.to_string(), whole);
        self.0.iter_mut().filter_map(record).collect()
    }
}

/// Times in nanoseconds.
#[derive(Debug, Default)]
struct Times(Packed);

impl Times {
    fn add(&mut self, time: u64) {
        self.0.open().record(time);
    }

    fn count(&mut self) -> u64 {
        self.0.open().len()
    }

    fn sum(&mut self) -> u128 {
        self.0.open().sum()
    }

    /// What they say; they are packed then, and opened when there are more.
    fn record(&mut self) -> Option<PhaseTimes> {
        let times = self.0.open();
        let at = |q: f64| times.quantile(q).value().map(|time| time as f64);
        let record = times.mean().map(|mean| PhaseTimes { p50: at(0.5), p99: at(0.99), mean });
        self.0.pack();
        record
    }

    /// As a phase of that name; `whole` is the time of all calls in nanoseconds.
    fn named(&mut self, name: &str, whole: u128) -> Option<PhaseRecord> {
        let share_percent = if whole == 0 { 0.0 } else { self.sum() as f64 * 100.0 / whole as f64 };
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
        PhaseTally::add(&mut all, &SlicePhases { one_in: 8, calls, contradictory: 1 });
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
