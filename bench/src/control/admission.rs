//! Who may talk to a server: after the greeting, and before anything else is read, both sides show that
//! they have the same token, without telling it.
//!
//! The server sends a number that is new each time, the client answers with one of its own and its proof,
//! and the server lets it in with its own proof or says why not. What
//! follows is neither encrypted nor signed: `docs/security.md` says what that means.

use std::{
    io::{self, Read},
    net::TcpStream,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    FrameError,
    frame::read_frame_within,
    token::{Conversation, NONCE_BYTES, Side, Token, TokenError, random},
    write_frame,
};
use crate::transport::{StopReason, StopSignal};

/// The largest document before a client is let in, in bytes: nobody has to take more of a stranger's.
const LARGEST: u32 = 1 << 10;

/// Time for all of it.
const TIME: Duration = Duration::from_secs(5);

/// How long a read lasts before the stop signal is looked at.
const TURN: Duration = Duration::from_millis(100);

/// What a server asks of those who come.
#[derive(Debug, Clone)]
pub enum Guard {
    /// Nothing.
    Open,
    /// That they have this token.
    Token(Token),
}

/// What a server says first: show that you may come in.
#[derive(Debug, Serialize, Deserialize)]
struct Challenge {
    /// New each time, in base64.
    nonce: String,
    /// Whether a token is asked for.
    token: bool,
}

/// The client's answer.
#[derive(Debug, Serialize, Deserialize)]
struct Claim {
    /// New each time, in base64.
    nonce: String,
    /// Of the client's token; absent where it has none.
    proof: Option<String>,
}

/// What the server makes of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// Come in.
    Admitted {
        /// Of the server's token; absent where it asks for none.
        proof: Option<String>,
    },
    /// Stay out.
    Denied(Denial),
}

/// Why a client stays out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denial {
    /// It showed no token.
    NoToken,
    /// It showed another one.
    OtherToken,
}

/// Why a client does not come in, as either side tells it.
#[derive(Debug, Error)]
pub enum AdmissionError {
    /// The client has no token, and the server asks for one.
    #[error(
        "{peer} asks for its token, which `fabricbench serve` printed there: give it in FABRICBENCH_TOKEN, or in a file with --token-file"
    )]
    TokenMissing {
        /// The server.
        peer: String,
    },
    /// The tokens differ.
    #[error(
        "the token given is not the one of {peer}: take what `fabricbench serve` printed there, or the file that it reads"
    )]
    TokenDiffers {
        /// The server.
        peer: String,
    },
    /// The client has a token, and the server does not show that it has it too.
    #[error(
        "{peer} does not show that it has the token: it may be another program; a server that asks for none is used with --insecure"
    )]
    Unproven {
        /// The server.
        peer: String,
    },
    /// As the server tells of a client.
    #[error("{peer}: {}", match denial {
        Denial::NoToken => "it has no token",
        Denial::OtherToken => "it has another token",
    })]
    Denied {
        /// The client.
        peer: String,
        /// Why.
        denial: Denial,
    },
    /// Not in time.
    #[error("{peer} greeted, and said no more within {within:?}")]
    Late {
        /// The peer.
        peer: String,
        /// How long it had.
        within: Duration,
    },
    /// It says what it should not.
    #[error("{peer}: {source}")]
    Frame {
        /// The peer.
        peer: String,
        /// What was read.
        source: FrameError,
    },
    /// It says what does not follow.
    #[error("{peer} answered out of turn; is it a fabricbench of the same version?")]
    OutOfTurn {
        /// The peer.
        peer: String,
    },
    /// No random numbers.
    #[error(transparent)]
    Random(#[from] TokenError),
    /// Somebody asked for the end.
    #[error("{0}")]
    Stopped(StopReason),
}

/// Shows a server that has been greeted that we may come in, and has it show the same where we have a
/// token. It has 5 s, or `patience` where that is less.
///
/// # Errors
/// [`AdmissionError`].
pub fn enter(
    stream: &TcpStream,
    token: Option<&Token>,
    peer: &str,
    patience: Duration,
    stop: &StopSignal,
) -> Result<(), AdmissionError> {
    let mut turn = Turn::new(stream, peer, patience.min(TIME), stop);
    let peer = || peer.to_owned();
    let Challenge { nonce, token: asks } = turn.hear()?;
    let server = nonce_in(&nonce).ok_or_else(|| AdmissionError::OutOfTurn { peer: peer() })?;
    let conversation = Conversation { client: random()?, server };
    if asks && token.is_none() {
        // Said, so that the server's operator reads why.
        let _ = turn.say(&Claim { nonce: BASE64.encode(conversation.client), proof: None });
        return Err(AdmissionError::TokenMissing { peer: peer() });
    }
    let proof = token.map(|token| token.proof(Side::Client, &conversation));
    turn.say(&Claim { nonce: BASE64.encode(conversation.client), proof })?;
    match (turn.hear::<Verdict>()?, token) {
        (Verdict::Admitted { proof: Some(proof) }, Some(token)) => {
            match token.is_proven(Side::Server, &conversation, &proof) {
                true => turn.end(),
                false => Err(AdmissionError::Unproven { peer: peer() }),
            }
        }
        (Verdict::Admitted { proof: None }, Some(_)) => {
            Err(AdmissionError::Unproven { peer: peer() })
        }
        (Verdict::Admitted { .. }, None) => turn.end(),
        (Verdict::Denied(Denial::NoToken), _) => Err(AdmissionError::TokenMissing { peer: peer() }),
        (Verdict::Denied(Denial::OtherToken), _) => {
            Err(AdmissionError::TokenDiffers { peer: peer() })
        }
    }
}

/// Lets a client in that has been greeted, or tells it why not.
///
/// # Errors
/// [`AdmissionError`]; the caller closes the connection.
pub fn admit(
    stream: &TcpStream,
    guard: &Guard,
    peer: &str,
    stop: &StopSignal,
) -> Result<(), AdmissionError> {
    let mut turn = Turn::new(stream, peer, TIME, stop);
    let server = random()?;
    let asks = matches!(guard, Guard::Token(_));
    turn.say(&Challenge { nonce: BASE64.encode(server), token: asks })?;
    let claim: Claim = turn.hear()?;
    let client = nonce_in(&claim.nonce)
        .ok_or_else(|| AdmissionError::OutOfTurn { peer: peer.to_owned() })?;
    let conversation = Conversation { client, server };
    let denial = match (guard, claim.proof) {
        (Guard::Open, _) => {
            turn.say(&Verdict::Admitted { proof: None })?;
            return turn.end();
        }
        (Guard::Token(token), Some(proof))
            if token.is_proven(Side::Client, &conversation, &proof) =>
        {
            turn.say(&Verdict::Admitted { proof: Some(token.proof(Side::Server, &conversation)) })?;
            return turn.end();
        }
        (Guard::Token(_), Some(_)) => Denial::OtherToken,
        (Guard::Token(_), None) => Denial::NoToken,
    };
    let _ = turn.say(&Verdict::Denied(denial));
    Err(AdmissionError::Denied { peer: peer.to_owned(), denial })
}

fn nonce_in(text: &str) -> Option<[u8; NONCE_BYTES]> {
    BASE64.decode(text).ok()?.try_into().ok()
}

/// One side of it, with one deadline for all that the other says: who trickles is not waited for.
struct Turn<'a> {
    stream: &'a TcpStream,
    peer: &'a str,
    within: Duration,
    deadline: Instant,
    stop: &'a StopSignal,
}

impl<'a> Turn<'a> {
    fn new(stream: &'a TcpStream, peer: &'a str, within: Duration, stop: &'a StopSignal) -> Self {
        Self { stream, peer, within, deadline: Instant::now() + within, stop }
    }

    fn hear<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, AdmissionError> {
        let turn = Some(TURN);
        self.stream.set_read_timeout(turn).map_err(|error| self.failed(error.into()))?;
        let heard = read_frame_within(&mut Bounded(self), LARGEST);
        heard.map_err(|error| self.failed(error))
    }

    fn say<T: Serialize>(&mut self, document: &T) -> Result<(), AdmissionError> {
        let said = self
            .stream
            .set_write_timeout(Some(TIME))
            .and_then(|()| write_frame(&mut &*self.stream, document));
        said.map_err(|error| self.failed(error.into()))
    }

    /// Leaves the stream as it was.
    fn end(&self) -> Result<(), AdmissionError> {
        let ended =
            self.stream.set_read_timeout(None).and_then(|()| self.stream.set_write_timeout(None));
        ended.map_err(|error| self.failed(error.into()))
    }

    fn failed(&self, source: FrameError) -> AdmissionError {
        use io::ErrorKind::{BrokenPipe, TimedOut, WouldBlock};
        let peer = self.peer.to_owned();
        if let Some(reason) = self.stop.reason() {
            return AdmissionError::Stopped(reason);
        }
        match source {
            FrameError::Io(error) if matches!(error.kind(), TimedOut | WouldBlock) => {
                AdmissionError::Late { peer, within: self.within }
            }
            // Whether it was gone before or behind what we said.
            FrameError::Io(error) if error.kind() == BrokenPipe => {
                AdmissionError::Frame { peer, source: FrameError::Closed }
            }
            source if source.is_end() => AdmissionError::Frame { peer, source: FrameError::Closed },
            source => AdmissionError::Frame { peer, source },
        }
    }
}

/// The stream until the deadline.
struct Bounded<'a, 'b>(&'a Turn<'b>);

impl Read for Bounded<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        let Turn { deadline, stop, .. } = *self.0;
        let mut stream = self.0.stream;
        loop {
            if stop.is_given() || Instant::now() >= deadline {
                return Err(TimedOut.into());
            }
            match stream.read(buffer) {
                Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {}
                read => return read,
            }
        }
    }
}

/// Reads `input` as each of the three documents, and looks at the proof in it.
#[cfg(fuzzing)]
pub(super) fn read_any(input: &[u8]) {
    let _ = read_frame_within::<Verdict>(&mut &*input, LARGEST);
    let _ = read_frame_within::<Challenge>(&mut &*input, LARGEST);
    if let Ok(Claim { nonce, proof: Some(proof) }) = read_frame_within(&mut &*input, LARGEST)
        && let Some(client) = nonce_in(&nonce)
    {
        let token = Token::parse("0123456789abcdef").expect("it is long enough");
        let conversation = Conversation { client, server: client };
        assert!(!token.is_proven(Side::Client, &conversation, &proof), "nobody knows the key");
    }
}
