//! The frames of an HTTP/2 connection as their bytes pass: which stream they are of, and where a
//! stream ends (RFC 9113, sections 3.4, 4.1 and 6).

/// What a client says first.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
/// Length, type, flags and stream.
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;

/// A piece of a frame that carries a call: HEADERS, CONTINUATION or DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The stream.
    pub(super) stream: u32,
    /// Whether a byte of the message (DATA) is in it; else it is of what stands before and behind.
    pub(super) data: bool,
    /// Whether the stream's last byte in this direction is in it. (Of headers that are continued,
    /// the last byte of the first frame: gRPC's fit one.)
    pub(super) ends: bool,
}

/// One direction of a connection. It keeps its place whatever the pieces are that bytes come in.
#[derive(Debug)]
pub(super) struct Frames {
    preface: usize,
    header: [u8; HEADER],
    have: usize,
    // Of the frame's payload, bytes still to come.
    left: usize,
}

impl Frames {
    /// From a client, which says the preface first.
    pub(super) fn of_client() -> Frames {
        Frames { preface: PREFACE, ..Frames::of_server() }
    }

    /// From a server.
    pub(super) fn of_server() -> Frames {
        Frames { preface: 0, header: [0; HEADER], have: 0, left: 0 }
    }

    /// Passes over `bytes`, and tells of each piece of a call in them. A frame of which only the
    /// header's beginning is there is told with the rest of the header.
    pub(super) fn pass(&mut self, mut bytes: &[u8], mut piece: impl FnMut(Piece)) {
        let preface;
        (preface, bytes) = bytes.split_at(self.preface.min(bytes.len()));
        self.preface -= preface.len();
        while !bytes.is_empty() {
            if let Some(missing @ [_, ..]) = self.header.get_mut(self.have..) {
                let part;
                (part, bytes) = bytes.split_at(missing.len().min(bytes.len()));
                missing.iter_mut().zip(part).for_each(|(place, byte)| *place = *byte);
                self.have += part.len();
                if self.have < HEADER {
                    return;
                }
                let [high, middle, low, ..] = self.header;
                self.left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            }
            let part;
            (part, bytes) = bytes.split_at(self.left.min(bytes.len()));
            self.left -= part.len();
            let [_, _, _, kind, flags, stream @ ..] = self.header;
            if matches!(kind, DATA | HEADERS | CONTINUATION) {
                // The highest bit is reserved.
                let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
                let last = kind != CONTINUATION && flags & END_STREAM != 0;
                let data = kind == DATA && !part.is_empty();
                piece(Piece { stream, data, ends: last && self.left == 0 });
            }
            if self.left == 0 {
                self.have = 0;
            }
        }
    }
}

/// Passes over `input`, cut as its first byte says and whole: the same calls end.
#[cfg(fuzzing)]
pub(crate) fn pass_any(input: &[u8]) {
    fn ends<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u32> {
        let (mut frames, mut ended) = (Frames::of_server(), Vec::new());
        for bytes in pieces {
            frames.pass(bytes, |piece| ended.extend(piece.ends.then_some(piece.stream)));
        }
        ended
    }
    let Some((&cut, bytes)) = input.split_first() else { return };
    let whole = ends(std::iter::once(bytes));
    assert_eq!(whole, ends(bytes.chunks(usize::from(cut) + 1)), "the cut tells");
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, flags: u8, stream: u32, payload: usize) -> Vec<u8> {
        let mut bytes = (payload as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend((stream | 1 << 31).to_be_bytes());
        // What would be taken for a frame of stream 1 if the place were lost.
        bytes.extend([0, 0, 0, DATA, END_STREAM, 0, 0, 0, 1].iter().cycle().take(payload));
        bytes
    }

    fn passed(frames: &mut Frames, bytes: &[u8]) -> Vec<(u32, bool)> {
        let mut pieces = Vec::new();
        frames.pass(bytes, |piece| pieces.push((piece.stream, piece.ends)));
        pieces
    }

    fn connection() -> Vec<u8> {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, 0, 18));
        bytes.extend(frame(HEADERS, 4, 1, 40));
        bytes.extend(frame(WINDOW_UPDATE, END_STREAM, 1, 4));
        bytes.extend(frame(DATA, 0, 3, 300));
        bytes.extend(frame(DATA, END_STREAM, 1, 0));
        bytes.extend(frame(DATA, END_STREAM, 3, 70_000));
        bytes
    }

    #[test]
    fn pieces_of_calls_are_told_with_their_stream_and_its_end() {
        let pieces = passed(&mut Frames::of_client(), &connection());
        assert_eq!(pieces, [(1, false), (3, false), (1, true), (3, true)]);
        let server = frame(HEADERS, 5, 9, 12);
        assert_eq!(passed(&mut Frames::of_server(), &server), [(9, true)]);
    }

    /// However it is cut, the same streams end, each where its last byte is.
    #[test]
    fn cuts_lose_nothing() {
        let whole = connection();
        for cut in 1..whole.len() {
            let mut frames = Frames::of_client();
            let mut pieces = passed(&mut frames, &whole[..cut]);
            pieces.extend(passed(&mut frames, &whole[cut..]));
            let ends: Vec<_> = pieces.iter().filter(|(_, ends)| *ends).collect();
            assert_eq!(ends, [&(1, true), &(3, true)], "cut at {cut}");
        }
        let mut frames = Frames::of_client();
        let bytewise: Vec<_> =
            whole.iter().flat_map(|byte| passed(&mut frames, &[*byte])).collect();
        assert_eq!(bytewise.iter().filter(|(_, ends)| *ends).count(), 2);
        assert_eq!(bytewise.last(), Some(&(3, true)));
    }
}
