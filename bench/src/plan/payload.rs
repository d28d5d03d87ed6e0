//! What the messages are filled with, so that the far side can tell whether it arrived.

/// The multiplier and increment of Knuth's MMIX linear congruential generator.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// A seeded, position-dependent pattern: a byte that arrives at the wrong place, or from another
/// test's buffer, does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    seed: u64,
}

impl Payload {
    /// The pattern of `seed`; both sides of a test use the same one.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Fills `buffer` with the pattern from its beginning.
    pub fn fill(&self, buffer: &mut [u8]) {
        for (chunk, word) in buffer.chunks_mut(8).zip(self.words()) {
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
    }

    /// Whether `received` holds the pattern from its beginning.
    #[must_use]
    pub fn matches(&self, received: &[u8]) -> bool {
        received
            .chunks(8)
            .zip(self.words())
            .all(|(chunk, word)| chunk == &word.to_le_bytes()[..chunk.len()])
    }

    fn words(&self) -> impl Iterator<Item = u64> + use<> {
        let mut state = self.seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
            // The high bits of a congruential generator are the good ones.
            state ^ (state >> 33)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_anywhere_is_seen() {
        let payload = Payload::new(5);
        for len in [1usize, 7, 8, 9, 1000] {
            let mut buffer = vec![0; len];
            payload.fill(&mut buffer);
            assert!(payload.matches(&buffer));
            for position in 0..len {
                buffer[position] ^= 1;
                assert!(!payload.matches(&buffer), "{position} of {len}");
                buffer[position] ^= 1;
            }
        }
    }

    #[test]
    fn another_seed_is_another_pattern() {
        let mut buffer = vec![0; 16];
        Payload::new(1).fill(&mut buffer);
        assert!(!Payload::new(2).matches(&buffer));
        assert!(!Payload::new(1).matches(&[0; 16]), "an untouched buffer is no payload");
    }
}
