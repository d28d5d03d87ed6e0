//! Messages in DATA frames, however they are cut.

use bytes::Bytes;

use super::framing::Assembly;

/// Bytes of a message that may come in.
const LIMIT: usize = 1 << 12;

/// The first byte says how the others are cut; cut in another way, they are the same messages.
pub(crate) fn messages(input: &[u8]) {
    let Some((&cut, wire)) = input.split_first() else { return };
    let whole = assembled(wire, wire.len().max(1));
    let pieces = assembled(wire, usize::from(cut) + 1);
    assert_eq!(whole, pieces, "the cut tells");
}

/// The messages until one is refused, and whether one was.
fn assembled(wire: &[u8], cut: usize) -> (Vec<Bytes>, bool) {
    let mut assembly = Assembly::new(LIMIT);
    let mut messages = Vec::new();
    for chunk in wire.chunks(cut) {
        assembly.put(Bytes::copy_from_slice(chunk));
        loop {
            match assembly.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return (messages, true),
            }
        }
    }
    (messages, false)
}
