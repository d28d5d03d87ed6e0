//! The key of a slice's data path, made anew for each listener and told over the control connection.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use fabricbench_grpc::{Key, random};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::TransportError;

/// What the connections of a slice show that they are its client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceKey(pub Key);

impl SliceKey {
    /// A new one of 128 random bits.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<Self, TransportError> {
        Key::generate().map(Self).map_err(|error| TransportError::Failed(error.to_string()))
    }
}

/// In base64, which only the other side is to see.
impl Serialize for SliceKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(self.0.reveal()))
    }
}

impl<'de> Deserialize<'de> for SliceKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Option<[u8; 16]> =
            BASE64.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(|bytes| Self(bytes.into())).ok_or_else(|| D::Error::custom("no key of 128 bits"))
    }
}

/// The Q_Key of datagrams that is new for each pair: the highest of the 32 bits is for privileged users.
///
/// # Errors
/// The system gives no random numbers.
pub(super) fn random_qkey() -> Result<u32, TransportError> {
    let bytes = random().map_err(|error| TransportError::Failed(error.to_string()))?;
    Ok(u32::from_be_bytes(bytes) & QKEY_BITS)
}

/// Those that any user may set.
pub(super) const QKEY_BITS: u32 = u32::MAX >> 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_crosses_as_it_is_and_nothing_else_is_one() {
        let key = SliceKey::generate().unwrap();
        let text = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<SliceKey>(&text).unwrap(), key);
        assert!(!format!("{key:?}").contains(text.trim_matches('"')));
        for wrong in ["\"\"", "\"00\"", "7", "null"] {
            assert!(serde_json::from_str::<SliceKey>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_qkey_is_new_each_time_and_one_that_a_user_may_set() {
        let keys: std::collections::HashSet<_> = (0..64).map(|_| random_qkey().unwrap()).collect();
        // Two of 64 are the same once in a million times; four never.
        assert!(keys.len() > 60, "{keys:?}");
        assert!(keys.iter().all(|key| key >> 31 == 0), "{keys:?}");
    }
}
