//! A codec that notes when it works.

use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::{Call, Mark};

/// A codec, or its encoder or decoder, of one call; of a call that is not sampled it is what is in
/// it.
#[derive(Clone, Debug)]
pub(crate) struct Marked<T> {
    inner: T,
    call: Option<Call>,
}

impl<T> Marked<T> {
    pub(crate) fn new(inner: T, call: Option<Call>) -> Marked<T> {
        Marked { inner, call }
    }

    #[inline]
    fn mark(&self, mark: Mark) {
        if let Some(call) = &self.call {
            call.mark(mark);
        }
    }
}

impl<C: Codec> Codec for Marked<C> {
    type Encode = C::Encode;
    type Decode = C::Decode;
    type Encoder = Marked<C::Encoder>;
    type Decoder = Marked<C::Decoder>;

    fn encoder(&mut self) -> Marked<C::Encoder> {
        Marked::new(self.inner.encoder(), self.call.clone())
    }

    fn decoder(&mut self) -> Marked<C::Decoder> {
        Marked::new(self.inner.decoder(), self.call.clone())
    }
}

impl<E: Encoder<Error = Status>> Encoder for Marked<E> {
    type Item = E::Item;
    type Error = Status;

    fn encode(&mut self, item: E::Item, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        self.mark(Mark::EncodeBegin);
        let encoded = self.inner.encode(item, into);
        self.mark(Mark::EncodeEnd);
        encoded
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.inner.buffer_settings()
    }
}

impl<D: Decoder<Error = Status>> Decoder for Marked<D> {
    type Item = D::Item;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<D::Item>, Status> {
        self.mark(Mark::DecodeBegin);
        let decoded = self.inner.decode(from);
        self.mark(Mark::DecodeEnd);
        decoded
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.inner.buffer_settings()
    }
}
