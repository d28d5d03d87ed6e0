//! A socket that notes when bytes of a call pass.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::Frames;
use super::{Recorder, Side};

/// A stream, and where its connection is marked.
#[derive(Debug)]
pub(crate) struct MarkedStream<S> {
    inner: S,
    recorder: Option<Arc<Recorder>>,
    // Boxed: most connections are not marked.
    marks: Option<Box<Directions>>,
}

#[derive(Debug)]
struct Directions {
    recorder: Arc<Recorder>,
    coming: Frames,
    going: Frames,
}

impl<S> MarkedStream<S> {
    /// Without a recorder it is the stream and nothing else, and also where TLS above it has the
    /// frames `sealed`.
    pub(crate) fn new(inner: S, recorder: Option<Arc<Recorder>>, sealed: bool) -> MarkedStream<S> {
        let marks = recorder.clone().filter(|_| !sealed).map(|recorder| {
            let (coming, going) = match recorder.side() {
                Side::Client => (Frames::of_server(), Frames::of_client()),
                Side::Server { .. } => (Frames::of_client(), Frames::of_server()),
            };
            Box::new(Directions { recorder, coming, going })
        });
        MarkedStream { inner, recorder, marks }
    }

    /// Where its connection is marked.
    pub(crate) fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recorder.as_ref()
    }
}

impl Directions {
    /// The time, if it may be that of a sampled call.
    #[inline]
    fn before(&self) -> Option<u64> {
        self.recorder.is_armed().then(|| self.recorder.now())
    }

    /// A system call that began at `before` has ended.
    #[inline]
    fn span(&self, before: Option<u64>) -> Option<(u64, u64)> {
        before.map(|before| (before, self.recorder.now()))
    }

    fn written(&mut self, slices: &[IoSlice<'_>], mut taken: usize, before: Option<u64>) {
        let span = self.span(before);
        let Directions { recorder, going, .. } = self;
        for slice in slices {
            let (part, _) = slice.split_at(slice.len().min(taken));
            taken -= part.len();
            going.pass(part, |piece| recorder.written(piece, span));
            if taken == 0 {
                return;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MarkedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let MarkedStream { inner, marks, .. } = &mut *self;
        let Some(marks) = marks else { return Pin::new(inner).poll_read(cx, buffer) };
        let (had, before) = (buffer.filled().len(), marks.before());
        let polled = Pin::new(inner).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = polled {
            let span = marks.span(before);
            let Directions { recorder, coming, .. } = &mut **marks;
            let came = buffer.filled().get(had..).unwrap_or_default();
            coming.pass(came, |piece| recorder.read(piece, span));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MarkedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let MarkedStream { inner, marks, .. } = &mut *self;
        let Some(marks) = marks else { return Pin::new(inner).poll_write(cx, bytes) };
        let before = marks.before();
        let polled = Pin::new(inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(taken)) = polled {
            marks.written(&[IoSlice::new(bytes)], taken, before);
        }
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let MarkedStream { inner, marks, .. } = &mut *self;
        let Some(marks) = marks else {
            return Pin::new(inner).poll_write_vectored(cx, slices);
        };
        let before = marks.before();
        let polled = Pin::new(inner).poll_write_vectored(cx, slices);
        if let Poll::Ready(Ok(taken)) = polled {
            marks.written(slices, taken, before);
        }
        polled
    }

    /// Without it h2 copies every payload behind its frame header.
    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
