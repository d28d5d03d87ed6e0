//! What the counters say of packets that were lost, sent again or came to a receiver that was not
//! ready, while figures were made that do not show it.

use std::collections::BTreeMap;

use fabricbench_verbs::counters::{Class, meaning};

use crate::report::{CellRecord, Counters};

/// One warning a transport whose counters tell of trouble; and one for what was lost for good.
pub(super) fn troubles(cells: &[CellRecord]) -> Vec<String> {
    let mut transports = Vec::new();
    for cell in cells {
        if !transports.contains(&&cell.transport) {
            transports.push(&cell.transport);
        }
    }
    let mut warnings = Vec::new();
    for transport in transports {
        let cells: Vec<_> = cells.iter().filter(|cell| cell.transport == *transport).collect();
        let mut moved = BTreeMap::<&str, u64>::new();
        let mut troubled = 0;
        for cell in &cells {
            let mut any = false;
            for (name, count) in both(cell).flat_map(|counters| &counters.rdma) {
                if is_trouble(name) {
                    *moved.entry(name).or_default() += count;
                    any = true;
                }
            }
            troubled += usize::from(any);
        }
        if troubled > 0 {
            let counters: Vec<_> =
                moved.iter().map(|(name, count)| format!("{name} {count}")).collect();
            warnings.push(format!(
                "{transport}: in {troubled} of {} cells packets were lost, sent again or refused \
                 by a receiver that was not ready: {}",
                cells.len(),
                counters.join(", ")
            ));
        }
        let losses = || cells.iter().filter_map(|cell| cell.loss);
        let (sent, lost) =
            losses().fold((0, 0), |(sent, lost), loss| (sent + loss.sent, lost + loss.lost));
        if lost > 0 {
            warnings.push(format!(
                "{transport}: {lost} of {sent} messages were lost on the way or found no receive; \
                 rates are of what arrived"
            ));
        }
    }
    warnings
}

fn both(cell: &CellRecord) -> impl Iterator<Item = &Counters> {
    cell.counters.iter().chain(&cell.peer_counters)
}

fn is_trouble(counter: &str) -> bool {
    matches!(meaning(counter), Some((Class::Loss | Class::NotReady, _)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Cell, Pattern},
        report::Loss,
        run::tally::Tally,
    };

    #[test]
    fn retransmissions_and_losses_are_called_out_by_their_counters() {
        let transport = "verbs-ud-send".parse().unwrap();
        let cell = Cell::new(transport, Pattern::Bandwidth, 8);
        let quiet = Tally::new(cell).record();
        let mut troubled = quiet.clone();
        let moved = |name: &str, count| (name.to_owned(), count);
        troubled.counters = Some(Counters {
            rdma: [moved("sent_pkts", 9), moved("completer_retry_err", 2)].into(),
            ..Counters::default()
        });
        troubled.loss = Some(Loss { sent: 100, lost: 3 });
        assert_eq!(troubles(std::slice::from_ref(&quiet)), Vec::<String>::new());
        let warnings = troubles(&[quiet, troubled]);
        assert!(warnings[0].contains("in 1 of 2 cells"), "{warnings:?}");
        assert!(warnings[0].ends_with("not ready: completer_retry_err 2"), "{warnings:?}");
        assert!(warnings[1].contains("3 of 100 messages were lost"), "{warnings:?}");
    }
}
