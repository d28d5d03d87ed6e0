//! What comes in over a connection of a push.

use super::inbox::Inbox;
use crate::plan::Payload;

/// Size of a message, of the first piece and of the pieces after it, then the stream.
pub(crate) fn tcp_stream(input: &[u8]) {
    let Some((&[size, asks, first, piece], stream)) = input.split_first_chunk() else { return };
    let size = u64::from(size) + 1;
    let mut inbox =
        Inbox::new(size, Payload::new(3), asks & 1 == 1).expect("there is memory for it");
    let (head, rest) = stream.split_at(stream.len().min(first.into()));
    for mut unread in std::iter::once(head).chain(rest.chunks(usize::from(piece) + 1)) {
        while !unread.is_empty() {
            let before = unread.len();
            if inbox.take(&mut unread).is_err() {
                return;
            }
            assert!(unread.len() < before, "it takes nothing, for ever");
        }
    }
    let received = inbox.received();
    assert_eq!(received.bytes / size, received.messages, "half a message counts as one");
}
