//! What the counters, and the kernel's TCP, say of packets that were lost, sent again or came to a
//! receiver that was not ready, while figures were made that do not show it.

use std::collections::BTreeMap;

use fabricbench_verbs::counters::{Class, meaning};

use crate::{
    plan::TransportName,
    report::{CellRecord, Counters, PathKind, TcpRecord, TcpSide},
    transport::tcp::{ADDRESS_ONLY, SOCKET_BINDING},
};

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
            if is_timer_only(cell) {
                continue;
            }
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
        warnings.extend(retransmissions(transport, &cells));
        warnings.extend(miscounted(transport, &cells));
        warnings.extend(bound_by_address(transport, &cells));
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

/// A warning if a kernel counts other connections than were asked for.
fn miscounted(transport: &TransportName, cells: &[&CellRecord]) -> Option<String> {
    let tcp = |cell: &&CellRecord| cell.tcp.clone().filter(TcpRecord::is_miscounted);
    let wrong: Vec<_> = cells.iter().filter_map(tcp).collect();
    let first = wrong.first()?;
    let count = |side: &Option<TcpSide>| {
        side.as_ref().map_or_else(|| "?".to_owned(), |side| side.connections.to_string())
    };
    Some(format!(
        "{transport}: in {} of {} cells the kernels count other connections than were asked for: {} of \
         {} on the client, {} on the server",
        wrong.len(),
        cells.len(),
        count(&first.client),
        first.asked.unwrap_or(0),
        count(&first.server)
    ))
}

/// A warning if the kernel did not let sockets be bound to an interface.
fn bound_by_address(transport: &TransportName, cells: &[&CellRecord]) -> Option<String> {
    let how = cells.iter().find_map(|cell| {
        let binding = cell.settings.as_ref()?.transport.get(SOCKET_BINDING)?;
        binding.strip_prefix(ADDRESS_ONLY)
    })?;
    Some(format!(
        "{transport}: sockets are bound to the address{how}. The kernel's route decides which interface \
         they use; a row whose bytes went elsewhere is an error all the same"
    ))
}

/// A warning if TCP sent so much again on either side of any cell that it counts.
fn retransmissions(transport: &TransportName, cells: &[&CellRecord]) -> Option<String> {
    let sides = |cell: &CellRecord| {
        let tcp = cell.tcp.clone().unwrap_or_default();
        tcp.client.into_iter().chain(tcp.server)
    };
    let worst = |cell: &CellRecord| {
        sides(cell).filter_map(|side| side.retransmitted()).fold(0.0_f64, f64::max)
    };
    let lossy = |cell: &&&CellRecord| sides(cell).any(|side| side.is_lossy());
    let troubled: Vec<_> = cells.iter().filter(lossy).collect();
    let again: u64 =
        troubled.iter().flat_map(|cell| sides(cell)).map(|side| side.retransmits).sum();
    let most = troubled.iter().map(|cell| worst(cell)).fold(0.0_f64, f64::max);
    (!troubled.is_empty()).then(|| {
        format!(
            "{transport}: in {} of {} cells TCP sent segments again, {again} in all and up to {:.2} % of \
             them: the path loses packets, which the figures show and not what it could carry",
            troubled.len(),
            cells.len(),
            most * 100.0
        )
    })
}

fn both(cell: &CellRecord) -> impl Iterator<Item = &Counters> {
    cell.counters.iter().chain(&cell.peer_counters)
}

/// The most requests that soft-RoCE sends again for no reason, as a share of its packets: its timer
/// runs from the first request until it ends, whatever was acknowledged meanwhile, and what is under
/// way then is sent again. `-u 18` instead of 14 makes that a sixteenth.
const TIMER_SHARE: f64 = 0.001;

/// Whether all that a cell's counters tell is soft-RoCE's timer.
fn is_timer_only(cell: &CellRecord) -> bool {
    let emulated = cell.path.as_ref().is_some_and(|path| path.kind == PathKind::SoftRoce);
    emulated
        && both(cell).all(|counters| {
            let of = |counter| counters.rdma.get(counter).copied().unwrap_or(0);
            let again = of("completer_retry_err").max(of("duplicate_request"));
            let others = counters.rdma.keys().filter(|name| is_trouble(name));
            others.into_iter().all(|name| TIMER.contains(&name.as_str()))
                && again as f64 <= TIMER_SHARE * of("sent_pkts") as f64
        })
}

/// What its timer moves.
const TIMER: [&str; 2] = ["completer_retry_err", "duplicate_request"];

fn is_trouble(counter: &str) -> bool {
    matches!(meaning(counter), Some((Class::Loss | Class::NotReady, _)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Cell, Pattern},
        report::{Loss, Path},
        run::tally::unmeasured,
    };

    fn over(kind: PathKind) -> Path {
        Path {
            kind,
            device: Some("rxe0".into()),
            port: Some(1),
            interface: None,
            emulated: kind == PathKind::SoftRoce,
            backing: None,
            address: None,
            mtu: Some(4096),
            chosen: None,
        }
    }

    #[test]
    fn what_the_timer_of_soft_roce_sends_again_is_no_loss() {
        let cell = Cell::new("verbs-write".parse().unwrap(), Pattern::Latency, 8);
        let counted = |kind, counters: &[(&str, u64)]| {
            let mut record = unmeasured(&cell, "not yet");
            record.path = Some(over(kind));
            let rdma = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            record.counters = Some(Counters { rdma, ..Counters::default() });
            troubles(&[record]).len()
        };
        let few = [("sent_pkts", 30_000), ("completer_retry_err", 22), ("duplicate_request", 22)];
        assert_eq!(counted(PathKind::SoftRoce, &few), 0);
        assert_eq!(counted(PathKind::Roce, &few), 1);
        let more = few.map(|(name, count)| (name, count.min(20_000)));
        assert_eq!(counted(PathKind::SoftRoce, &more), 1);
        let lost = [few[0], few[1], ("out_of_seq_request", 1)];
        assert_eq!(counted(PathKind::SoftRoce, &lost), 1);
    }

    #[test]
    fn retransmissions_and_losses_are_called_out_by_their_counters() {
        let transport = "verbs-ud-send".parse().unwrap();
        let cell = Cell::new(transport, Pattern::Bandwidth, 8);
        let quiet = unmeasured(&cell, "not yet");
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

    #[test]
    fn connections_that_are_missing_are_called_out() {
        let cell = Cell::new("grpc@loopback".parse().unwrap(), Pattern::Bandwidth, 8);
        let side = |connections| Some(TcpSide { connections, ..TcpSide::default() });
        let with = |client, server| {
            let asked = Some(4);
            let tcp = TcpRecord { asked, client: side(client), server: side(server), reason: None };
            CellRecord { tcp: Some(tcp), ..unmeasured(&cell, "not yet") }
        };
        assert_eq!(troubles(&[with(4, 4)]), Vec::<String>::new());
        let warnings = troubles(&[with(4, 4), with(1, 4)]);
        assert!(warnings[0].contains("in 1 of 2 cells"), "{warnings:?}");
        assert!(warnings[0].ends_with("1 of 4 on the client, 4 on the server"), "{warnings:?}");
    }

    #[test]
    fn segments_sent_again_are_called_out_above_a_share() {
        let transport = "tcp@loopback".parse().unwrap();
        let cell = Cell::new(transport, Pattern::Bandwidth, 8);
        let quiet = unmeasured(&cell, "not yet");
        let with = |retransmits| {
            let server =
                Some(TcpSide { retransmits, segments_sent: Some(10_000), ..TcpSide::default() });
            CellRecord { tcp: Some(TcpRecord { server, ..TcpRecord::default() }), ..quiet.clone() }
        };
        assert_eq!(troubles(&[quiet.clone(), with(19)]), Vec::<String>::new());
        let warnings = troubles(&[quiet.clone(), with(20), with(150)]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with(
                "tcp@loopback: in 2 of 3 cells TCP sent segments again, 170 in all and up to 1.50 %"
            ),
            "{warnings:?}"
        );
    }
}
