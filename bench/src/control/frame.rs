//! Length-prefixed JSON on a byte stream.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// The largest document either side accepts, in bytes. The largest real one describes a host with
/// its interfaces and devices, some 100 KiB on a large machine.
pub const LARGEST_FRAME: u32 = 4 << 20;

/// Bytes of the length in front of a document.
const PREFIX: usize = 4;

/// Why a document did not arrive.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The other side closed the connection between two documents.
    #[error("the peer closed the control connection")]
    Closed,
    /// The connection failed.
    #[error("control connection: {0}")]
    Io(#[from] io::Error),
    /// A length above the limit.
    #[error(
        "control connection: a document of {length} bytes is over the limit of {largest}; the peer does not speak this protocol"
    )]
    TooLarge {
        /// What was claimed.
        length: u32,
        /// [`LARGEST_FRAME`], or less from who has not been let in.
        largest: u32,
    },
    /// Not the JSON that was expected.
    #[error("control connection: unreadable document: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl FrameError {
    /// Whether the other side is simply gone. A process that is killed with bytes unread resets its
    /// connection instead of closing it, and may do either in the middle of a document.
    #[must_use]
    pub fn is_end(&self) -> bool {
        use io::ErrorKind::{ConnectionReset, UnexpectedEof};
        match self {
            Self::Closed => true,
            Self::Io(error) => matches!(error.kind(), ConnectionReset | UnexpectedEof),
            Self::TooLarge { .. } | Self::Unreadable(_) => false,
        }
    }
}

/// Writes one document: its length as a big-endian `u32`, then the JSON, in one write so that it
/// leaves in one segment.
///
/// # Errors
/// The stream's own.
pub fn write_frame<T: Serialize>(stream: &mut impl Write, document: &T) -> io::Result<()> {
    let mut buffer = vec![0; PREFIX];
    serde_json::to_writer(&mut buffer, document)?;
    let len = u32::try_from(buffer.len() - PREFIX).map_err(|_| io::ErrorKind::InvalidInput)?;
    if let Some(prefix) = buffer.first_chunk_mut() {
        *prefix = len.to_be_bytes();
    }
    stream.write_all(&buffer)
}

/// Reads one document. Allocates as bytes arrive, never by the claimed length alone.
///
/// # Errors
/// [`FrameError`].
pub fn read_frame<T: DeserializeOwned>(stream: &mut impl Read) -> Result<T, FrameError> {
    read_frame_within(stream, LARGEST_FRAME)
}

/// Reads one document of `largest` bytes at the most.
pub(super) fn read_frame_within<T: DeserializeOwned>(
    stream: &mut impl Read,
    largest: u32,
) -> Result<T, FrameError> {
    let mut len = [0; PREFIX];
    let some = loop {
        match stream.read(&mut len) {
            // A socket with a time-out returns EINTR after SIGCONT even without a handler
            // (signal(7)).
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    match len.get_mut(some..) {
        _ if some == 0 => return Err(FrameError::Closed),
        Some(rest) => stream.read_exact(rest)?,
        None => {}
    }
    let len = u32::from_be_bytes(len);
    if len > largest {
        return Err(FrameError::TooLarge { length: len, largest });
    }
    let mut buffer = Vec::new();
    stream.by_ref().take(u64::from(len)).read_to_end(&mut buffer)?;
    if buffer.len() < len as usize {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(serde_json::from_slice(&buffer)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_document_comes_back() {
        let mut stream = Vec::new();
        write_frame(&mut stream, &vec![1, 2, 3]).unwrap();
        write_frame(&mut stream, &"text").unwrap();
        let mut stream = stream.as_slice();
        assert_eq!(read_frame::<Vec<u32>>(&mut stream).unwrap(), [1, 2, 3]);
        assert_eq!(read_frame::<String>(&mut stream).unwrap(), "text");
        assert!(matches!(read_frame::<String>(&mut stream), Err(FrameError::Closed)));
    }

    #[test]
    fn a_claimed_length_is_not_believed() {
        let mut huge = &u32::MAX.to_be_bytes()[..];
        assert!(matches!(
            read_frame::<String>(&mut huge),
            Err(FrameError::TooLarge { length: u32::MAX, .. })
        ));
        let mut short = &[0, 0, 0, 9, b'"'][..];
        assert!(matches!(read_frame::<String>(&mut short), Err(FrameError::Io(_))));
        let mut cut = &[0, 0][..];
        assert!(matches!(read_frame::<String>(&mut cut), Err(FrameError::Io(_))));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_not_obeyed(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read_frame::<crate::control::Request>(&mut bytes.as_slice());
        }
    }
}
