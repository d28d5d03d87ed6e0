//! What is sent: one buffer, or several that nobody has joined.

use std::sync::Arc;

use bytes::Bytes;

/// A message to send, in one buffer or in several. Cloning it copies and allocates nothing.
///
/// Buffers go to the codec as they are: joining them first would be a copy more.
#[derive(Clone, Debug, Default)]
pub struct Message {
    parts: Parts,
    size: usize,
}

#[derive(Clone, Debug)]
enum Parts {
    One(Bytes),
    Several(Arc<[Bytes]>),
}

impl Default for Parts {
    fn default() -> Parts {
        Parts::One(Bytes::new())
    }
}

impl Message {
    /// Of `buffers` in this order.
    pub fn of(buffers: Vec<Bytes>) -> Message {
        let size = buffers.iter().map(Bytes::len).sum();
        Message { parts: Parts::Several(buffers.into()), size }
    }

    /// Bytes of all buffers together.
    pub fn len(&self) -> usize {
        self.size
    }

    /// Whether there is not a byte in it.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The buffers.
    pub fn buffers(&self) -> &[Bytes] {
        match &self.parts {
            Parts::One(only) => std::slice::from_ref(only),
            Parts::Several(all) => all,
        }
    }
}

impl From<Bytes> for Message {
    fn from(only: Bytes) -> Message {
        let size = only.len();
        Message { parts: Parts::One(only), size }
    }
}

impl From<Vec<u8>> for Message {
    fn from(only: Vec<u8>) -> Message {
        Bytes::from(only).into()
    }
}
