//! A key that a connection shows before anything else is said on it, and has shown.
//!
//! Who connects begins with a head: a number that is new each time, [`NONCE`] bytes, and its proof, HMAC-SHA-256
//! (RFC 2104) under the key. The listener answers with a proof of its own, or with [`REFUSAL`], which has
//! the same length, and closes. After that the connection is as if there had been no head.
//!
//! A head is good for one connection. It comes before TLS, so that a stranger costs no handshake; the key
//! itself is in neither.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream as BlockingStream;
use std::time::{Duration, Instant};

use ring::digest::SHA256_OUTPUT_LEN;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::{Error, Result};

/// Bytes of a key: 128 bits.
const KEY: usize = 16;

/// Bytes of the number that a head begins with.
pub(crate) const NONCE: usize = 16;

/// Bytes of a head.
pub(crate) const HEAD: usize = NONCE + SHA256_OUTPUT_LEN;

/// What a head is answered with.
pub(crate) type Answer = [u8; SHA256_OUTPUT_LEN];

/// The answer to a head that shows another key, or that was shown before.
pub(crate) const REFUSAL: &Answer = b"fabricbench: unknown connection\n";

/// Between two attempts of who is let in late, or was cut off among strangers.
pub(crate) const RETRY: Duration = Duration::from_millis(20);

/// How long a blocking read lasts before it is asked whether all is over.
const TURN: Duration = Duration::from_millis(100);

/// A secret of a listener and of those who may connect to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY]);

impl Key {
    /// A new one of 128 random bits.
    ///
    /// # Errors
    /// [`Error::NoRandom`].
    pub fn generate() -> Result<Key> {
        random().map(Key)
    }

    /// The secret itself, for the one who is to connect.
    pub fn reveal(&self) -> [u8; KEY] {
        self.0
    }

    /// A head, and the answer to it.
    pub(crate) fn head(&self) -> Result<([u8; HEAD], Answer)> {
        let nonce = random::<NONCE>()?;
        let mut head = [0; HEAD];
        let (number, proof) = head.split_at_mut(NONCE);
        number.copy_from_slice(&nonce);
        proof.copy_from_slice(&self.proof(Side::Client, &nonce));
        Ok((head, self.proof(Side::Server, &nonce)))
    }

    /// The number of a head that shows this key, and the answer to it; in a time that does not depend on
    /// where it is wrong.
    pub(crate) fn admit(&self, head: &[u8; HEAD]) -> Option<([u8; NONCE], Answer)> {
        let (nonce, proof) = head.split_first_chunk::<NONCE>()?;
        hmac::verify(&self.hmac(), &Side::Client.says(nonce), proof).ok()?;
        Some((*nonce, self.proof(Side::Server, nonce)))
    }

    /// That who asks for the place number `place` has the key, for a protocol in which each place is asked
    /// for once, and whose numbers both sides know.
    pub fn claim(&self, place: u64) -> [u8; SHA256_OUTPUT_LEN] {
        let mut claim = [0; SHA256_OUTPUT_LEN];
        claim.copy_from_slice(hmac::sign(&self.hmac(), &of_place(place)).as_ref());
        claim
    }

    /// Whether `data` begins with the [`claim`](Key::claim) of that place; in a time that does not depend
    /// on where it is wrong.
    pub fn is_claim(&self, place: u64, data: &[u8]) -> bool {
        let Some(claim) = data.get(..SHA256_OUTPUT_LEN) else { return false };
        hmac::verify(&self.hmac(), &of_place(place), claim).is_ok()
    }

    fn proof(&self, side: Side, nonce: &[u8; NONCE]) -> Answer {
        let mut proof = [0; SHA256_OUTPUT_LEN];
        proof.copy_from_slice(hmac::sign(&self.hmac(), &side.says(nonce)).as_ref());
        proof
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

impl From<[u8; KEY]> for Key {
    fn from(revealed: [u8; KEY]) -> Key {
        Key(revealed)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Who proves: what one side says is worth nothing when it is sent back.
#[derive(Clone, Copy)]
enum Side {
    Client,
    Server,
}

impl Side {
    fn says(self, nonce: &[u8; NONCE]) -> Vec<u8> {
        let label: &[u8] = match self {
            Side::Client => b"fabricbench data client\0",
            Side::Server => b"fabricbench data server\0",
        };
        [label, nonce].concat()
    }
}

fn of_place(place: u64) -> Vec<u8> {
    [&b"fabricbench place\0"[..], &place.to_be_bytes()].concat()
}

/// Numbers that nobody foresees, of the system's.
///
/// # Errors
/// [`Error::NoRandom`].
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::NoRandom)?;
    Ok(bytes)
}

/// What a listener made of a head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It takes the connection, and is the one that was asked.
    Taken,
    /// It does not take it.
    Refused,
    /// It is another program.
    Foreign,
}

fn verdict(answer: &Answer, expected: &Answer) -> Verdict {
    match answer {
        // Compared in any time: it was computed for this head alone, and is of no use afterwards.
        answer if answer == expected => Verdict::Taken,
        answer if answer == REFUSAL => Verdict::Refused,
        _ => Verdict::Foreign,
    }
}

/// Shows `key` on a new connection.
///
/// # Errors
/// The connection's own: it was cut.
pub(crate) async fn show(stream: &mut TcpStream, key: &Key) -> Result<io::Result<Verdict>> {
    let (head, expected) = key.head()?;
    let exchange = async {
        stream.write_all(&head).await?;
        let mut answer = [0; SHA256_OUTPUT_LEN];
        stream.read_exact(&mut answer).await?;
        Ok(verdict(&answer, &expected))
    };
    Ok(exchange.await)
}

/// The same on a blocking one, until `deadline` or until it is over.
///
/// # Errors
/// As [`show`]; [`io::ErrorKind::TimedOut`].
pub(crate) fn show_blocking(
    stream: &BlockingStream,
    key: &Key,
    deadline: Instant,
    is_over: &dyn Fn() -> bool,
) -> Result<io::Result<Verdict>> {
    let (head, expected) = key.head()?;
    let mut stream = stream;
    let mut exchange = || {
        stream.set_nodelay(true)?;
        stream.write_all(&head)?;
        let (mut answer, mut have) = ([0; SHA256_OUTPUT_LEN], 0);
        while let Some(rest) = answer.get_mut(have..).filter(|rest| !rest.is_empty()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || is_over() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left.min(TURN)))?;
            match stream.read(rest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => have += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        stream.set_read_timeout(None)?;
        Ok(verdict(&answer, &expected))
    };
    Ok(exchange())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_shows_its_own_key_and_no_other() {
        let (key, other) = (Key::generate().unwrap(), Key::generate().unwrap());
        assert_ne!(key, other);
        let (head, expected) = key.head().unwrap();
        let (nonce, answer) = key.admit(&head).unwrap();
        assert_eq!((&nonce[..], answer), (&head[..NONCE], expected));
        assert_eq!(other.admit(&head), None);
        for place in [0, NONCE - 1, NONCE, HEAD - 1] {
            let mut wrong = head;
            wrong[place] ^= 1;
            assert_eq!(key.admit(&wrong), None, "byte {place}");
        }
        // New each time, and no answer is a proof.
        assert_ne!(key.head().unwrap().0, head);
        let echoed: Vec<u8> = nonce.into_iter().chain(answer).collect();
        assert_eq!(key.admit(&echoed.try_into().unwrap()), None);
    }

    #[test]
    fn a_key_is_shown_nowhere() {
        let key = Key::from([0x5a; KEY]);
        assert_eq!((format!("{key:?}").as_str(), key.reveal()), ("Key(..)", [0x5a; KEY]));
    }

    #[test]
    fn a_claim_is_of_one_place() {
        let (key, other) = (Key::generate().unwrap(), Key::generate().unwrap());
        let mut data = key.claim(7).to_vec();
        data.resize(56, 0);
        assert!(key.is_claim(7, &data) && key.is_claim(7, &data[..32]));
        assert!(!key.is_claim(8, &data) && !other.is_claim(7, &data));
        assert!(!key.is_claim(7, &data[1..]) && !key.is_claim(7, &data[..31]));
    }

    #[test]
    fn another_answer_is_another_program() {
        let (_, expected) = Key::generate().unwrap().head().unwrap();
        assert_eq!(verdict(&expected, &expected), Verdict::Taken);
        assert_eq!(verdict(REFUSAL, &expected), Verdict::Refused);
        assert_eq!(verdict(&[0; 32], &expected), Verdict::Foreign);
    }
}
