//! Connecting by the RDMA connection manager (`-R`) instead of by the numbers exchanged over the
//! control connection.
//!
//! The server listens at an address of its own named device and says which in its answer; the
//! client finds the way there from an address of its own named device; both are compared with the
//! device the kernel chose before anything is sent. Where the memory is and its key still travel
//! over the control connection, as does, for datagrams, where the client's queue pairs are: the
//! connection manager tells the listener nothing of who asks. Who asks shows in the private data of its
//! request, 32 bytes, that it has the key of the answer, for the place of the queue pair among the others;
//! a request of anyone else is refused.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use fabricbench_verbs::{
    CmError, Error,
    cm::{DatagramPeer, Listener, Request, Route},
};

use super::{Pair, PeerRegions, VerbsPort, VerbsResponder, connect::regions, failed, pair::Lane};
use crate::{
    plan::Service,
    transport::{
        Received, Responder, SliceKey, StopSignal, TransportError, VerbsEndpoint,
        wait::{go_on, stopped},
    },
};

/// Time for each step of connecting a queue pair: some thousand times what it takes.
const STEP: Duration = Duration::from_secs(5);

/// Time until a client that was told where to connect does.
const FIRST: Duration = Duration::from_secs(10);

/// How often a wait for the client looks at the stop signal.
const LOOK: Duration = Duration::from_millis(50);

/// Refuses what the connection manager cannot connect.
pub(super) fn admit(service: Service) -> Result<(), TransportError> {
    match service {
        Service::Rc | Service::Ud => Ok(()),
        Service::Uc => Err(TransportError::Unsupported(
            "UC by rdma_cm (-R): it connects RC and finds receivers for UD; without -R endpoints \
             are exchanged, for UC too"
                .to_owned(),
        )),
    }
}

impl VerbsPort {
    /// The address of this device that the connection manager is to use: on Ethernet that of the
    /// GID chosen, so that it takes the same; else the first of the port's interface.
    pub(super) fn manager_address(&self) -> Result<SocketAddr, TransportError> {
        let addresses = self.context.cm_addresses(&self.port).map_err(failed)?;
        choose(&addresses, self.gid_address()).ok_or_else(|| {
            let listed: Vec<_> = addresses.iter().map(|address| address.ip().to_string()).collect();
            TransportError::Unsupported(format!(
                "rdma_cm (-R) needs an IP address of the interface of {} that other hosts reach{}; \
                 there are {}",
                self.port.device,
                match self.gid_address() {
                    Some(address) =>
                        format!(", and GID {} ({address}) is none", self.gid.entry.index),
                    None => String::new(),
                },
                listed.join(", ")
            ))
        })
    }

    /// The IP address that the GID is; `None` where GIDs are no addresses.
    fn gid_address(&self) -> Option<IpAddr> {
        let gid = self.gid.entry.gid;
        (self.port.is_ethernet() && !self.is_iwarp()).then(|| match gid.ipv4() {
            Some(address) => IpAddr::V4(address),
            None => IpAddr::V6(gid.0.into()),
        })
    }
}

/// The address `wanted`, or any that is good on another host: a link-local one has a scope that
/// means nothing there.
fn choose(addresses: &[SocketAddr], wanted: Option<IpAddr>) -> Option<SocketAddr> {
    let local = |address: &SocketAddr| match address.ip() {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let mut usable = addresses.iter().filter(|address| !local(address));
    usable.find(|address| wanted.is_none_or(|wanted| address.ip() == wanted)).copied()
}

/// The client's side.
impl Pair {
    /// Connects every queue pair to that of the same place at `address`; returns the peer's memories.
    ///
    /// # Errors
    /// The address is not reached by this side's device, nobody listens there, or the peer is silent.
    pub(super) fn connect_by_manager(
        &mut self,
        peer: &VerbsEndpoint,
        key: &SliceKey,
        address: SocketAddr,
        stop: &StopSignal,
    ) -> Result<PeerRegions, TransportError> {
        self.admit_peer(peer)?;
        for lane in 0..self.lanes.len() {
            go_on(stop)?;
            let claim = key.0.claim(lane as u64);
            match self.plan.verbs.service {
                Service::Ud => self.ask_for(lane, &claim, address)?,
                _ => self.connect_lane(lane, &claim, address)?,
            }
        }
        Ok(regions(peer))
    }

    fn connect_lane(
        &mut self,
        lane: usize,
        claim: &[u8],
        address: SocketAddr,
    ) -> Result<(), TransportError> {
        let (context, options) = (&self.port.context, &self.options);
        let own = self.port.manager_address()?;
        let route = match self.port.gid_address() {
            Some(_) => Route::resolve_from(context, own, address, options, STEP),
            None => Route::resolve(context, &self.port.port, address, options, STEP),
        };
        let route = route.map_err(failed)?;
        let Some(Lane { queue_pair, .. }) = self.lanes.get(lane) else { return Ok(()) };
        route.prepare(queue_pair, options).map_err(failed)?;
        self.post_receives(lane)?;
        let connection = route.connect(queue_pair, options, claim, STEP).map_err(failed)?;
        self.connections.push(connection);
        Ok(())
    }

    fn ask_for(
        &mut self,
        lane: usize,
        claim: &[u8],
        address: SocketAddr,
    ) -> Result<(), TransportError> {
        let (context, port) = (&self.port.context, &self.port.port);
        let route = Route::resolve_datagram(context, port, address, &self.options, STEP);
        let Some(Lane { queue_pair, .. }) = self.lanes.get(lane) else { return Ok(()) };
        let found = route.and_then(|route| route.ask(queue_pair, port, claim, STEP));
        let DatagramPeer { endpoint, qkey, gid_index, .. } = found.map_err(failed)?;
        let gid = context.choose_gid(port.number, Some(gid_index)).map_err(failed)?;
        let domain = queue_pair.protection_domain();
        let handle = domain.create_address_handle(port, &gid, &endpoint, &self.options);
        let handle = handle.map_err(failed)?;
        self.activate(lane, &handle, endpoint.qpn, qkey)
    }
}

/// The server's side: connects as the client asks, then serves.
#[derive(Debug)]
pub struct ManagedResponder {
    pair: Pair,
    client: VerbsEndpoint,
    listener: Listener,
    key: SliceKey,
}

impl ManagedResponder {
    /// Listens for `client` at an address of the pair's device; returns it as well, and what the client must
    /// show.
    ///
    /// # Errors
    /// The device has no address to listen at, or the client's memory does not fit.
    pub fn listen(
        mut pair: Pair,
        client: VerbsEndpoint,
    ) -> Result<(Self, SocketAddr, SliceKey), TransportError> {
        pair.admit_peer(&client)?;
        let (own, context) = (pair.port.manager_address()?, pair.port.context.clone());
        let backlog = u16::try_from(pair.lanes.len()).unwrap_or(u16::MAX);
        let listener = match pair.plan.verbs.service {
            Service::Ud => {
                pair.connect(&client)?;
                Listener::bind_datagram(&context, own, backlog)
            }
            _ => Listener::bind(&context, own, backlog),
        };
        let listener = listener.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let key = SliceKey::generate()?;
        Ok((Self { pair, client, listener, key: key.clone() }, address, key))
    }

    /// Connects every queue pair of the client's.
    fn accept(&mut self, stop: &StopSignal) -> Result<(), TransportError> {
        for lane in 0..self.pair.lanes.len() {
            let request = self.next_request(lane as u64, stop)?;
            let options = &self.pair.options;
            let Some(Lane { queue_pair, .. }) = self.pair.lanes.get(lane) else { continue };
            if self.pair.plan.verbs.service == Service::Ud {
                request.answer(queue_pair, &[]).map_err(failed)?;
                continue;
            }
            request.prepare(queue_pair, options).map_err(failed)?;
            self.pair.post_receives(lane)?;
            let connection = request.accept(queue_pair, options, &[], STEP).map_err(failed)?;
            self.pair.connections.push(connection);
        }
        Ok(())
    }

    fn next_request(&self, place: u64, stop: &StopSignal) -> Result<Request, TransportError> {
        let since = Instant::now();
        loop {
            if stop.is_given() {
                return Err(stopped(stop));
            }
            match self.listener.next(LOOK) {
                Ok(request) if self.key.0.is_claim(place, request.private_data()) => {
                    return Ok(request);
                }
                Ok(stranger) => drop(stranger),
                Err(Error::Cm(error @ CmError::TimedOut { .. })) if since.elapsed() > FIRST => {
                    return Err(failed(error));
                }
                Err(Error::Cm(CmError::TimedOut { .. })) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

impl Responder for ManagedResponder {
    fn serve(mut self: Box<Self>, stop: &StopSignal) -> Result<Received, TransportError> {
        match self.accept(stop) {
            Ok(()) => {}
            Err(TransportError::Stopped(_)) => return Ok(Received::default()),
            Err(error) => return Err(error),
        }
        let remote = regions(&self.client);
        Box::new(VerbsResponder::over(self.pair, remote)).serve(stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
    }

    #[test]
    fn the_address_is_the_gids_or_one_that_others_reach() {
        let all = addresses(&["169.254.7.7", "10.77.1.1", "fd77:1::1", "fe80::1"]);
        let chosen = |wanted: Option<&str>| {
            let wanted = wanted.map(|text| text.parse().unwrap());
            choose(&all, wanted).map(|address| address.ip().to_string())
        };
        assert_eq!(chosen(None).as_deref(), Some("10.77.1.1"));
        assert_eq!(chosen(Some("fd77:1::1")).as_deref(), Some("fd77:1::1"));
        assert_eq!(chosen(Some("10.77.1.9")), None);
        assert_eq!(chosen(Some("fe80::1")), None, "its scope means nothing elsewhere");
    }

    #[test]
    fn an_unreliable_connection_is_refused_with_what_would_work() {
        assert_eq!((admit(Service::Rc), admit(Service::Ud)), (Ok(()), Ok(())));
        let error = admit(Service::Uc).unwrap_err();
        assert!(
            matches!(&error, TransportError::Unsupported(why) if why.starts_with("UC by rdma_cm"))
        );
    }
}
