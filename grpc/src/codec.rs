//! gRPC messages that are plain bytes: the five-byte gRPC prefix and nothing else.
//!
//! Encoding copies the payload once, into tonic's buffer; decoding takes the message out of
//! tonic's buffer without a copy. (tonic itself gathers the HTTP/2 DATA frames of a message, which
//! is one copy more on the way in.)

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Bytes of compression flag and length in front of each gRPC message.
pub(crate) const GRPC_PREFIX: usize = 5;

/// How the buffers of one call are sized. The default leaves everything to tonic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BytesCodec {
    /// Sizes in bytes for what is sent.
    pub(crate) encode: BufferSettings,
    /// Sizes in bytes for what is received.
    pub(crate) decode: BufferSettings,
    /// Bytes of messages to make room for at once; 0 makes room for one message at a time.
    pub(crate) slab: usize,
}

impl BytesCodec {
    /// Room for as many messages of this size, prefixes included, as make up a slab.
    fn room_for(&self, message: usize) -> usize {
        let framed = message + GRPC_PREFIX;
        // The prefix of the first one has been written already.
        framed * self.slab.div_ceil(framed).max(1) - GRPC_PREFIX
    }
}

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = BytesCodec;
    type Decoder = BytesCodec;

    fn encoder(&mut self) -> BytesCodec {
        *self
    }

    fn decoder(&mut self) -> BytesCodec {
        *self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        if into.chunk_mut().len() < message.len() {
            into.reserve(self.room_for(message.len()));
        }
        into.put_slice(&message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.encode
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.decode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slab_holds_whole_messages_and_at_least_one() {
        let codec = BytesCodec { slab: 1000, ..BytesCodec::default() };
        // Ten of 100 B with their prefixes, less the prefix that is there already.
        assert_eq!(codec.room_for(95), 995);
        assert_eq!(codec.room_for(96), 10 * 101 - 5);
        assert_eq!(codec.room_for(1 << 20), 1 << 20);
        assert_eq!(codec.room_for(0), 995);
        assert_eq!(BytesCodec::default().room_for(96), 96);
    }
}
