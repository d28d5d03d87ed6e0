//! gRPC messages that are plain bytes: the five-byte gRPC prefix and nothing else.
//!
//! Encoding copies the payload once, into tonic's buffer; decoding takes the message out of
//! tonic's buffer without a copy. (tonic itself gathers the HTTP/2 DATA frames of a message, which
//! is one copy more on the way in.)

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// How tonic sizes the buffers of one call. `None` leaves tonic's own settings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BytesCodec {
    pub(crate) buffers: Option<BufferSettings>,
}

impl BytesCodec {
    fn settings(&self) -> BufferSettings {
        self.buffers.unwrap_or_default()
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
        into.reserve(message.len());
        into.put_slice(&message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.settings()
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.settings()
    }
}
