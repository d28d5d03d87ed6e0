//! The secret that a server and its clients share, and what one of them shows of it to the other.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ring::hmac;
use thiserror::Error;

/// The fewest characters of a token. Who hears a conversation can try tokens against it at leisure, so
/// that a short one would be found.
pub const SHORTEST_TOKEN: usize = 16;

/// The most characters of a token.
pub const LONGEST_TOKEN: usize = 256;

/// Bytes of a token that is made here: 128 bits, twice as many hexadecimal digits.
const MADE_BYTES: usize = 16;

/// Bytes of what is new in each conversation.
pub(super) const NONCE_BYTES: usize = 32;

/// Why something is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Too short or too long.
    #[error("a token has {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters, not {0}")]
    Length(usize),
    /// Something that no file or variable shows.
    #[error("a token is of letters, digits and signs of ASCII, without spaces, and in one line")]
    Character,
    /// No random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// A secret; nothing shows it but [`Token::reveal`].
#[derive(Clone)]
// Compared by tests only: a comparison of secrets takes a time that tells where they differ.
#[cfg_attr(test, derive(PartialEq, Eq))]
pub struct Token(String);

impl Token {
    /// A token as a file or variable has it, a line feed at its end left out.
    ///
    /// # Errors
    /// [`TokenError::Length`], [`TokenError::Character`].
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Character);
        }
        if !(SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&text.len()) {
            return Err(TokenError::Length(text.len()));
        }
        Ok(Self(text.to_owned()))
    }

    /// A new one of 128 random bits.
    ///
    /// # Errors
    /// [`TokenError::Random`].
    pub fn generate() -> Result<Self, TokenError> {
        let bytes: [u8; MADE_BYTES] = random()?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The secret itself, for the one who is to pass it on.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// That `side` of a conversation has this token, in base64: HMAC-SHA-256 (RFC 2104) of
    /// the side and of what both sides made anew, so that it is worth nothing in another conversation,
    /// nor sent back to who made it.
    pub(super) fn proof(&self, side: Side, conversation: &Conversation) -> String {
        BASE64.encode(hmac::sign(&self.key(), &conversation.of(side)))
    }

    /// Whether `proof` is that of `side`; in a time that does not depend on where it is wrong.
    pub(super) fn is_proven(&self, side: Side, conversation: &Conversation, proof: &str) -> bool {
        let Ok(proof) = BASE64.decode(proof) else { return false };
        hmac::verify(&self.key(), &conversation.of(side), &proof).is_ok()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Who proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// What both sides made anew.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conversation {
    pub(super) client: [u8; NONCE_BYTES],
    pub(super) server: [u8; NONCE_BYTES],
}

impl Conversation {
    fn of(&self, side: Side) -> Vec<u8> {
        let label = match side {
            Side::Client => "fabricbench client\0",
            Side::Server => "fabricbench server\0",
        };
        [label.as_bytes(), &self.client, &self.server].concat()
    }
}

/// Numbers that nobody foresees.
pub(super) fn random<const N: usize>() -> Result<[u8; N], TokenError> {
    fabricbench_grpc::random().map_err(|_| TokenError::Random)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> Conversation {
        Conversation { client: random().unwrap(), server: random().unwrap() }
    }

    #[test]
    fn what_a_token_is() {
        assert_eq!(Token::parse("0123456789abcdef\n").unwrap().reveal(), "0123456789abcdef");
        assert_eq!(Token::parse("0123456789abcdef\r\n").unwrap().reveal(), "0123456789abcdef");
        assert_eq!(Token::parse("short"), Err(TokenError::Length(5)));
        assert_eq!(Token::parse(&"x".repeat(257)), Err(TokenError::Length(257)));
        for text in [
            "0123456789 abcdef",
            "0123456789abcdef\n\n",
            "0123456789äbcdefg",
            "\u{1b}[2J0123456789abcd",
        ] {
            assert_eq!(Token::parse(text), Err(TokenError::Character), "{text:?}");
        }
        let made = Token::generate().unwrap();
        assert_eq!(made.reveal().len(), 32);
        assert_ne!(made, Token::generate().unwrap());
        assert_eq!(Token::parse(made.reveal()), Ok(made));
    }

    #[test]
    fn a_token_is_not_shown_by_accident() {
        let token = Token::generate().unwrap();
        assert!(!format!("{token:?} {:?}", Some(&token)).contains(token.reveal()));
    }

    #[test]
    fn a_proof_holds_for_its_token_side_and_conversation_alone() {
        let (token, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        let here = conversation();
        let proof = token.proof(Side::Client, &here);
        assert!(token.is_proven(Side::Client, &here, &proof));
        assert!(!other.is_proven(Side::Client, &here, &proof));
        assert!(!token.is_proven(Side::Server, &here, &proof));
        assert!(!token.is_proven(Side::Client, &conversation(), &proof));
        assert!(!token.is_proven(
            Side::Client,
            &Conversation { client: here.server, server: here.client },
            &proof
        ));
        for wrong in ["", &proof[2..], &proof[4..], "not base64!", &format!("{proof}AAAA")] {
            assert!(!token.is_proven(Side::Client, &here, wrong), "{wrong}");
        }
    }

    /// The key and text of RFC 4231, test case 2, whose key is too short for a token.
    #[test]
    fn the_proof_is_hmac_sha_256() {
        let tag = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, b"Jefe"),
            b"what do ya want for nothing?",
        );
        assert_eq!(BASE64.encode(tag), "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=");
    }
}
