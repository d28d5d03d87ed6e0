//! Sets an interface up by rtnetlink, as `ip` would: MTU, up, addresses, and its removal.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::net::if_::if_nametoindex;

use crate::address::Address;

/// One interface, and the way to change it. Stays bound to the network namespace in which it
/// was opened, whatever thread uses it later.
pub struct Configuration {
    socket: Socket,
    index: u32,
    sequence: u32,
}

impl Configuration {
    /// Opens the way to the interface `name` of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// When there is no such interface, or no netlink socket to be had.
    pub fn open(name: &str) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, index: if_nametoindex(name)?, sequence: 0 })
    }

    /// Sets the MTU, in bytes, and brings the interface up.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn bring_up(&mut self, mtu: u32) -> io::Result<()> {
        let mut change = LinkMessage::default();
        change.header.index = self.index;
        change.header.flags = LinkFlags::Up;
        change.header.change_mask = LinkFlags::Up;
        change.attributes.push(LinkAttribute::Mtu(mtu));
        self.request(RouteNetlinkMessage::SetLink(change), 0)
    }

    /// Gives the interface an address.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn add_address(&mut self, address: Address) -> io::Result<()> {
        let mut addition = AddressMessage::default();
        addition.header.index = self.index;
        addition.header.prefix_len = address.prefix;
        addition.header.family =
            if address.ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        addition.attributes = vec![
            AddressAttribute::Local(address.ip),
            AddressAttribute::Address(address.ip),
            // An address under duplicate detection cannot be bound to; the link has two ends
            // and both are ours.
            AddressAttribute::Flags(AddressFlags::Nodad),
        ];
        self.request(RouteNetlinkMessage::NewAddress(addition), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes the interface; whoever reads from its device is woken by an error.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn delete(&mut self) -> io::Result<()> {
        let mut removal = LinkMessage::default();
        removal.header.index = self.index;
        self.request(RouteNetlinkMessage::DelLink(removal), 0)
    }

    /// One request, and the kernel's acknowledgement of it.
    fn request(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            match answer.payload {
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                NetlinkPayload::Error(_) => return Ok(()),
                _ => {}
            }
        }
    }
}
