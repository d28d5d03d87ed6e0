//! What a peer, or a stranger, says on the control connection.

use std::sync::OnceLock;

use super::{
    Message, Reply, Request, admission, greeting, limits::within_limits, read_frame, write_frame,
};
use crate::{
    plan::{Cell, default_depth, open_bound},
    session::{self, Host, Quota},
    transport::Offer,
};

/// The largest message and reply that are made ready for in earnest, in bytes: they are filled.
const SMALL: u64 = 1 << 16;

pub(crate) fn request(mut input: &[u8]) {
    while let Ok(said) = read_frame::<Message<Request>>(&mut input) {
        let mut written = Vec::new();
        write_frame(&mut written, &said).expect("it was read");
        let again: Message<Request> = read_frame(&mut &written[..]).expect("it was written");
        let mut twice = Vec::new();
        write_frame(&mut twice, &again).expect("it was read");
        assert_eq!(written, twice, "a request is another one on the other side");
        if let Message::Say(Request::Prepare { cell, depth, offers, .. }) = said {
            let _ = (cell.to_string(), within_limits(&cell, depth));
            if within_limits(&cell, depth).is_ok() {
                let _ = (default_depth(&cell), open_bound(&cell));
            }
            for offer in &offers {
                let _ = (offer.connections(), offer.runtime_threads());
            }
        }
    }
}

pub(crate) fn reply(mut input: &[u8]) {
    while let Ok(said) = read_frame::<Message<Reply>>(&mut input) {
        let Message::Say(reply) = said else { continue };
        let mut written = Vec::new();
        write_frame(&mut written, &reply).expect("it was read");
        if let Ok(plain) = reply.plain() {
            let mut shown = Vec::new();
            write_frame(&mut shown, &plain).expect("it was read");
        }
    }
}

pub(crate) fn greeting(input: &[u8]) {
    let refused = greeting::judge(input, "the peer");
    if let Err(error) = refused {
        let line = error.to_string();
        assert!(line.len() < 400 && line.is_ascii() && !line.contains('\n'), "{line}");
    }
}

pub(crate) fn admission(input: &[u8]) {
    admission::read_any(input);
}

/// Makes ready for a slice as the server does, sockets, threads and all.
pub(crate) fn prepare(mut input: &[u8]) {
    static HERE: OnceLock<Host> = OnceLock::new();
    let here = HERE.get_or_init(|| Host::here().expect("the kernel tells its interfaces"));
    let Ok(Message::Say(Request::Prepare { cell, depth, seed, cpu: _, offers })) =
        read_frame::<Message<Request>>(&mut input)
    else {
        return;
    };
    let few = |offer: &Offer| offer.connections() <= 4 && offer.runtime_threads() <= 4;
    let is_small = cell.size <= SMALL
        && cell.reply_size() <= SMALL
        && offers.len() <= 2
        && offers.iter().all(few);
    if is_small && within_limits(&cell, depth).is_ok() {
        let _ = session::prepare(here, *cell, depth, seed, None, &offers, &Quota::default());
    }
}

/// What the server holds every cell to.
pub(crate) fn is_within_limits(cell: &Cell, depth: u32) -> bool {
    within_limits(cell, depth).is_ok()
}
