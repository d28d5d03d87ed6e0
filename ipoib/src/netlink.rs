//! Questions to the kernel by netlink: rtnetlink of links, addresses and routes, sock_diag of
//! sockets, generic netlink of offloads. Answers are those of the calling thread's network namespace, which `/sys` need not
//! show.
//!
//! Messages are kept as a fixed header and raw attributes, of which callers read the few they
//! want. A typed decoder that rejects a message for one attribute it does not expect would
//! make every interface unreadable on the kernel that first sends it.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    ErrorMessage, NLA_HEADER_SIZE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
    NlasIterator,
};
use netlink_sys::{
    Socket, SocketAddr,
    protocols::{NETLINK_GENERIC, NETLINK_ROUTE, NETLINK_SOCK_DIAG},
};

/// Tries at a list that changes while the kernel gives it.
const DUMP_TRIES: u32 = 5;

/// A socket to one of netlink's families, bound to the namespace in which it was opened. Its
/// reads have no deadline: the kernel has queued the answer, or an error, before the send returns.
pub(crate) struct Kernel {
    socket: Socket,
    sequence: u32,
}

impl Kernel {
    /// Opens the way to rtnetlink.
    pub(crate) fn open() -> io::Result<Self> {
        Self::open_to(NETLINK_ROUTE)
    }

    /// Opens the way to sock_diag.
    pub(crate) fn open_sock_diag() -> io::Result<Self> {
        Self::open_to(NETLINK_SOCK_DIAG)
    }

    /// Opens the way to the families of generic netlink.
    pub(crate) fn open_generic() -> io::Result<Self> {
        Self::open_to(NETLINK_GENERIC)
    }

    fn open_to(family: isize) -> io::Result<Self> {
        let mut socket = Socket::new(family)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Asks for one object.
    pub(crate) fn get(&mut self, question: Message) -> io::Result<Message> {
        self.send(question, 0)?;
        let mut answers = Vec::new();
        self.receive(&mut answers)?;
        answers.into_iter().next().ok_or_else(|| malformed("an empty answer"))
    }

    /// Asks for all objects of a kind.
    pub(crate) fn list(&mut self, question: &Message) -> io::Result<Vec<Message>> {
        for _ in 0..DUMP_TRIES {
            self.send(question.clone(), NLM_F_DUMP)?;
            let mut answers = Vec::new();
            let mut interrupted = false;
            loop {
                match self.receive(&mut answers)? {
                    Part::Last { changed } => {
                        interrupted |= changed;
                        break;
                    }
                    Part::More { changed } => interrupted |= changed,
                }
            }
            if !interrupted {
                return Ok(answers);
            }
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the kernel's list changed during each of several readings",
        ))
    }

    fn send(&mut self, question: Message, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(question));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// Takes one datagram apart and appends what it holds to `answers`.
    fn receive(&mut self, answers: &mut Vec<Message>) -> io::Result<Part> {
        let (datagram, _) = self.socket.recv_from_full()?;
        take_apart(&datagram, self.sequence, answers)
    }
}

/// Appends the messages of a datagram that answer the question `sequence` to `answers`.
pub(crate) fn take_apart(
    datagram: &[u8],
    sequence: u32,
    answers: &mut Vec<Message>,
) -> io::Result<Part> {
    let mut rest = datagram;
    let mut changed = false;
    while !rest.is_empty() {
        let message = NetlinkMessage::<Message>::deserialize(rest)
            .map_err(|error| malformed(&error.to_string()))?;
        let length = (message.header.length as usize).next_multiple_of(4).max(4);
        rest = rest.get(length..).unwrap_or_default();
        if message.header.sequence_number != sequence {
            continue;
        }
        changed |= message.header.flags & NLM_F_DUMP_INTR != 0;
        match message.payload {
            NetlinkPayload::InnerMessage(answer) => answers.push(answer),
            NetlinkPayload::Error(ErrorMessage { code: Some(code), .. }) => {
                // No kernel gives the one number that has no positive counterpart.
                return Err(io::Error::from_raw_os_error(code.get().saturating_abs()));
            }
            // A list that the kernel could not give to its end.
            NetlinkPayload::Done(done) if done.code != 0 => {
                return Err(io::Error::from_raw_os_error(done.code.saturating_neg()));
            }
            NetlinkPayload::Done(_) => return Ok(Part::Last { changed }),
            _ => {}
        }
    }
    Ok(Part::More { changed })
}

/// Where in a list a datagram stands, and whether the list changed meanwhile.
pub(crate) enum Part {
    More { changed: bool },
    Last { changed: bool },
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("netlink: {what}"))
}

/// A message: its type, and its body of a fixed header and attributes.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    kind: u16,
    body: Vec<u8>,
}

impl Message {
    /// A message with the fixed header `header`, whose length is a multiple of 4.
    pub(crate) fn new(kind: u16, header: &[u8]) -> Self {
        Self { kind, body: header.to_vec() }
    }

    /// Appends an attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        // struct nlattr: the length counts itself and the kind, but not the padding.
        let length = (value.len() + NLA_HEADER_SIZE) as u16;
        self.body.extend_from_slice(&length.to_ne_bytes());
        self.body.extend_from_slice(&kind.to_ne_bytes());
        self.body.extend_from_slice(value);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
        self
    }

    /// Header and attributes as they lie in the message; of one without a header, what another's
    /// nested attribute holds.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn kind(&self) -> u16 {
        self.kind
    }

    /// The first `N` bytes, which are the fixed header; `None` if there are fewer.
    pub(crate) fn header<const N: usize>(&self) -> Option<(&[u8; N], Attributes<'_>)> {
        let (header, rest) = self.body.split_first_chunk()?;
        Some((header, Attributes(rest)))
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        // As long as `buffer_len` says.
        if let Some(room) = buffer.get_mut(..self.body.len()) {
            room.copy_from_slice(&self.body);
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = std::convert::Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Self::Error> {
        Ok(Self { kind: header.message_type, body: payload.to_vec() })
    }
}

/// The attributes of a message, or those nested in one of them.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The value of the first attribute of that kind.
    pub(crate) fn bytes(self, kind: u16) -> Option<&'a [u8]> {
        NlasIterator::new(self.0)
            .map_while(Result::ok)
            .find(|attribute| attribute.kind() == kind)
            .and_then(|attribute| {
                let length = usize::from(attribute.length());
                attribute.into_inner().get(NLA_HEADER_SIZE..length)
            })
    }

    /// What is nested in each attribute of that kind.
    pub(crate) fn each(self, kind: u16) -> impl Iterator<Item = Self> {
        NlasIterator::new(self.0).map_while(Result::ok).filter_map(move |attribute| {
            let length = usize::from(attribute.length());
            let value = attribute.into_inner().get(NLA_HEADER_SIZE..length);
            value.filter(|_| attribute.kind() == kind).map(Attributes)
        })
    }

    pub(crate) fn nested(self, kind: u16) -> Option<Self> {
        self.bytes(kind).map(Attributes)
    }

    pub(crate) fn u8(self, kind: u16) -> Option<u8> {
        self.bytes(kind)?.first().copied()
    }

    pub(crate) fn u16(self, kind: u16) -> Option<u16> {
        self.bytes(kind)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
    }

    pub(crate) fn u32(self, kind: u16) -> Option<u32> {
        self.bytes(kind)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    /// A string without its terminating zero.
    pub(crate) fn string(self, kind: u16) -> Option<String> {
        let bytes = self.bytes(kind)?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// An IPv4 or IPv6 address, told apart by its length.
    pub(crate) fn ip(self, kind: u16) -> Option<IpAddr> {
        ip(self.bytes(kind)?)
    }
}

/// An address of 4 or 16 bytes in network order.
pub(crate) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of the type NLMSG_ERROR with `code`, as an answer to question 1.
    fn refusal(code: i32) -> Vec<u8> {
        let mut datagram = 20u32.to_ne_bytes().to_vec();
        datagram.extend([2u16, 0].iter().flat_map(|field| field.to_ne_bytes()));
        datagram.extend([1u32, 0].iter().flat_map(|field| field.to_ne_bytes()));
        datagram.extend(code.to_ne_bytes());
        datagram
    }

    #[test]
    fn any_refusal_is_an_error() {
        let refused = |code| take_apart(&refusal(code), 1, &mut Vec::new()).map(drop).unwrap_err();
        assert_eq!(refused(-libc::ENODEV).raw_os_error(), Some(libc::ENODEV));
        assert_eq!(refused(i32::MIN).raw_os_error(), Some(i32::MAX));
        let acknowledged = take_apart(&refusal(0), 1, &mut Vec::new());
        assert!(matches!(acknowledged, Ok(Part::More { changed: false })));
    }
}
