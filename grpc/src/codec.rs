//! gRPC messages that are plain bytes: the five-byte gRPC prefix and nothing else, or a protobuf
//! message with one field of bytes.
//!
//! Encoding copies the payload once, into tonic's buffer, whether it comes in one buffer or in several;
//! decoding takes the message out of tonic's buffer without a copy. (tonic itself gathers the HTTP/2 DATA frames of a message, which
//! is one copy more on the way in.)

use bytes::{Buf, BufMut, Bytes};
use prost::Message as _;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::message::Message;

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
    /// Whether each message is the field of a protobuf message.
    pub(crate) serialized: bool,
}

/// `message Payload { bytes data = 1; }`, as it is sent.
#[derive(Clone, PartialEq, prost::Message)]
struct Payload {
    #[prost(bytes = "bytes", tag = "1")]
    data: Bytes,
}

/// The same as it is received: with the type that prost's generator gives such a field, into which
/// decoding copies.
#[derive(Clone, PartialEq, prost::Message)]
struct DecodedPayload {
    #[prost(bytes = "vec", tag = "1")]
    data: Vec<u8>,
}

/// Bytes that protobuf adds to a message at the most: a tag, and a length of up to 32 bits.
pub(crate) const PROTOBUF_PREFIX: usize = 6;

impl BytesCodec {
    /// Room for as many messages of this size, prefixes included, as make up a slab.
    fn room_for(&self, message: usize) -> usize {
        let framed = message + GRPC_PREFIX;
        // The prefix of the first one has been written already.
        framed * self.slab.div_ceil(framed).max(1) - GRPC_PREFIX
    }
}

impl BytesCodec {
    /// Writes `message` as the field of a protobuf message: of several buffers the same bytes as of
    /// one, without joining them first.
    fn serialize(self, message: &Message, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
        let failed = |error: prost::EncodeError| Status::internal(error.to_string());
        if let [only] = message.buffers() {
            let payload = Payload { data: only.clone() };
            let length = payload.encoded_len();
            if into.chunk_mut().len() < length {
                into.reserve(self.room_for(length));
            }
            return payload.encode(into).map_err(failed);
        }
        let bytes = message.len() as u64;
        let length = key_len(1) + encoded_len_varint(bytes) + message.len();
        if into.chunk_mut().len() < length {
            into.reserve(self.room_for(length));
        }
        encode_key(1, WireType::LengthDelimited, into);
        encode_varint(bytes, into);
        message.buffers().iter().for_each(|buffer| into.put_slice(buffer));
        Ok(())
    }
}

impl Codec for BytesCodec {
    type Encode = Message;
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
    type Item = Message;
    type Error = Status;

    fn encode(&mut self, message: Message, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        if self.serialized {
            return self.serialize(&message, into);
        }
        if into.chunk_mut().len() < message.len() {
            into.reserve(self.room_for(message.len()));
        }
        for buffer in message.buffers() {
            into.put_slice(buffer);
        }
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
        if self.serialized {
            let decoded = DecodedPayload::decode(from)
                .map_err(|error| Status::internal(format!("no Payload: {error}")))?;
            return Ok(Some(decoded.data.into()));
        }
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
