//! What the two ends of a pair tell one another, and how they become ready by it.

use fabricbench_verbs::{Access, AddressHandle, ConnectOptions, Endpoint, Gid, Mtu, cm};

use super::{
    Pair, PairPlan, PeerRegions, failed,
    layout::{Area, Layout},
};
use crate::{
    plan::Service,
    transport::{
        QueuePairEnd, TransportError, VerbsEndpoint,
        key::{QKEY_BITS, random_qkey},
    },
};

impl Pair {
    /// This pair as the peer must know it.
    #[must_use]
    pub fn endpoint(&self) -> VerbsEndpoint {
        let [host, messages] = self.regions.ends();
        let queue_pairs = self
            .lanes
            .iter()
            .map(|lane| QueuePairEnd { number: lane.local.qpn, packet_sequence: lane.local.psn });
        // All lanes are of one port.
        let local = self.lanes.first().map(|lane| lane.local);
        VerbsEndpoint {
            queue_pairs: queue_pairs.collect(),
            lid: local.map_or(0, |local| local.lid),
            gid: local.map_or([0; 16], |local| local.gid.0),
            path_mtu: local.map_or(0, |local| local.path_mtu),
            qkey: self.options.qkey,
            host,
            messages,
            memory: self.regions.to_string(),
            responder_resources: local.map_or(0, |local| local.responder_resources),
        }
    }

    /// Refuses a peer that does not fit: with less memory, or another number of queue pairs.
    pub(super) fn admit_peer(&mut self, peer: &VerbsEndpoint) -> Result<(), TransportError> {
        has_room(peer, &self.layout)?;
        if peer.queue_pairs.len() != self.lanes.len() {
            return Err(failed(format!(
                "the peer has {} queue pairs and this side {}",
                peer.queue_pairs.len(),
                self.lanes.len()
            )));
        }
        self.peer_memory.clone_from(&peer.memory);
        Ok(())
    }

    /// Connects to the peer; returns the peer's memories.
    ///
    /// # Errors
    /// The kernel refused a state change; the peer's memory is smaller than ours, or it has another
    /// number of queue pairs.
    pub fn connect(&mut self, peer: &VerbsEndpoint) -> Result<PeerRegions, TransportError> {
        self.admit_peer(peer)?;
        // All of the peer's queue pairs are on one port, to which one handle leads.
        let mut handle = None;
        for (index, end) in peer.queue_pairs.iter().enumerate() {
            let Some(lane) = self.lanes.get(index) else { continue };
            let remote = remote(peer, end);
            if self.plan.verbs.service != Service::Ud {
                self.connect_to(index, &remote)?;
                continue;
            }
            let (port, gid, options) = (&self.port.port, &self.port.gid, &self.options);
            let handle = match &handle {
                Some(handle) => handle,
                None => {
                    let domain = lane.queue_pair.protection_domain();
                    let made = domain.create_address_handle(port, gid, &remote, options);
                    handle.insert(made.map_err(failed)?)
                }
            };
            self.activate(index, handle, remote.qpn, peer.qkey & QKEY_BITS)?;
        }
        Ok(regions(peer))
    }

    /// Connects each lane to another of `peers`, to that of its queue pairs with the number `which`, for
    /// calls; returns the memories of each.
    ///
    /// # Errors
    /// As [`Pair::connect`].
    pub(super) fn connect_called(
        &mut self,
        peers: &[&VerbsEndpoint],
        which: usize,
    ) -> Result<Vec<PeerRegions>, TransportError> {
        let (made, lanes) = (peers.len(), self.lanes.len());
        let theirs = self.plan.peer_layout()?;
        let without =
            || failed(format!("{made} peers, some of them without a queue pair, for {lanes}"));
        if made != lanes {
            return Err(without());
        }
        for (index, peer) in peers.iter().enumerate() {
            has_room(peer, &theirs)?;
            let end = peer.queue_pairs.get(which).ok_or_else(without)?;
            self.connect_to(index, &remote(peer, end))?;
            self.peer_memory.clone_from(&peer.memory);
        }
        Ok(peers.iter().map(|peer| regions(peer)).collect())
    }

    fn connect_to(&self, lane: usize, remote: &Endpoint) -> Result<(), TransportError> {
        let Some(lane) = self.lanes.get(lane) else { return Ok(()) };
        let (port, gid, options) = (&self.port.port, &self.port.gid, &self.options);
        lane.queue_pair.connect(port, gid, &lane.local, remote, options).map_err(failed)
    }

    /// Makes a queue pair for datagrams ready, to send to the one with this number, which takes those with
    /// `qkey`.
    pub(super) fn activate(
        &mut self,
        lane: usize,
        handle: &AddressHandle,
        number: u32,
        qkey: u32,
    ) -> Result<(), TransportError> {
        let Some(lane) = self.lanes.get_mut(lane) else { return Ok(()) };
        lane.peer = Some(lane.queue_pair.attach_peer(handle, number, qkey).map_err(failed)?);
        let (port, options) = (&self.port.port, &self.options);
        lane.queue_pair.activate(port, lane.local.psn, options).map_err(failed)
    }

    /// The path MTU both sides agreed on, in bytes.
    #[must_use]
    pub fn agreed_mtu(&self, peer: &VerbsEndpoint) -> u32 {
        let asked = self.plan.settings.path_mtu.unwrap_or(u32::MAX);
        self.endpoint().path_mtu.min(peer.path_mtu).min(asked)
    }
}

/// Refuses a peer that has less memory than `layout`, its own, takes.
fn has_room(peer: &VerbsEndpoint, layout: &Layout) -> Result<(), TransportError> {
    for (area, offered) in [(Area::Host, peer.host), (Area::Messages, peer.messages)] {
        let taken = layout.length(area);
        if offered.length < taken as u64 {
            return Err(failed(format!(
                "the peer offers {} B of memory where the test takes {taken}",
                offered.length
            )));
        }
    }
    Ok(())
}

/// A queue pair of a peer, as a connection must know it.
fn remote(peer: &VerbsEndpoint, end: &QueuePairEnd) -> Endpoint {
    Endpoint {
        qpn: end.number & 0x00ff_ffff,
        psn: end.packet_sequence & 0x00ff_ffff,
        lid: peer.lid,
        gid: Gid(peer.gid),
        path_mtu: peer.path_mtu,
        responder_resources: peer.responder_resources,
    }
}

/// The memory that a peer lets us use.
pub(super) fn regions(peer: &VerbsEndpoint) -> PeerRegions {
    PeerRegions::of(peer.host, peer.messages)
}

/// What is asked of connections.
pub(super) fn connect_options(plan: &PairPlan) -> Result<ConnectOptions, TransportError> {
    let settings = &plan.settings;
    let path_mtu = match settings.path_mtu {
        None => None,
        Some(bytes) => Some(Mtu::from_bytes(bytes).ok_or_else(|| {
            TransportError::Unsupported(format!(
                "path MTU {bytes} is none of 256, 512, 1024, 2048, 4096"
            ))
        })?),
    };
    Ok(ConnectOptions {
        // Of the queue pair; a flush is a write, of nothing. The region has its own.
        access: plan.access() | Access::REMOTE_WRITE,
        path_mtu,
        // The connection manager knows one alone.
        qkey: if settings.manager { cm::DATAGRAM_QKEY } else { random_qkey()? },
        service_level: settings.service_level,
        traffic_class: settings.traffic_class,
        timeout: settings.timeout,
        retry: settings.retry,
        ..ConnectOptions::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Cell, Pattern, Payload, TransportName},
        transport::VerbsSettings,
    };

    fn plan(settings: VerbsSettings) -> PairPlan {
        let transport: TransportName = "verbs-ud-send".parse().unwrap();
        let TransportName::Verbs(verbs) = transport else { panic!("{transport}") };
        let cell = Cell::new(transport, Pattern::Latency, 8);
        PairPlan { cell, verbs, payload: Payload::new(1), depth: 1, settings, answers: false }
    }

    #[test]
    fn each_pair_takes_datagrams_that_carry_its_own_number() {
        let qkey = |manager| {
            let settings = VerbsSettings { manager, ..VerbsSettings::default() };
            connect_options(&plan(settings)).unwrap().qkey
        };
        let all: std::collections::HashSet<_> = (0..8).map(|_| qkey(false)).collect();
        assert!(all.len() > 6 && all.iter().all(|key| key & QKEY_BITS == *key), "{all:?}");
        assert_eq!(qkey(true), cm::DATAGRAM_QKEY);
    }
}
