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

    /// Its seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Fills `buffer` with the pattern from its beginning.
    pub fn fill(&self, buffer: &mut [u8]) {
        self.fill_from(0, buffer);
    }

    /// Fills `buffer` with the pattern from `offset` bytes after its beginning.
    pub fn fill_from(&self, offset: usize, buffer: &mut [u8]) {
        let (before, skipped) = (offset as u64 / 8, offset % 8);
        let mut words = self.words_from(before).map(u64::to_le_bytes);
        let (head, rest) = buffer.split_at_mut((8 - skipped).min(buffer.len()));
        let first = words.next().unwrap_or_default();
        for (byte, of_word) in head.iter_mut().zip(first.into_iter().skip(skipped)) {
            *byte = of_word;
        }
        let (whole, tail) = rest.as_chunks_mut();
        // By reference: the tail has the word after the last whole one.
        for (chunk, word) in whole.iter_mut().zip(&mut words) {
            *chunk = word;
        }
        for (byte, of_word) in tail.iter_mut().zip(words.next().unwrap_or_default()) {
            *byte = of_word;
        }
    }

    /// Whether `received` holds the pattern from its beginning.
    #[must_use]
    pub fn matches(&self, received: &[u8]) -> bool {
        self.matches_from(0, received)
    }

    /// Whether `received` holds the pattern from `offset` bytes after its beginning.
    #[must_use]
    pub fn matches_from(&self, offset: usize, received: &[u8]) -> bool {
        let (before, skipped) = (offset as u64 / 8, offset % 8);
        let mut words = self.words_from(before).map(u64::to_le_bytes);
        let (head, rest) = received.split_at((8 - skipped).min(received.len()));
        let first = words.next().unwrap_or_default();
        first.iter().skip(skipped).zip(head.iter()).all(|(of_word, byte)| of_word == byte)
            && rest.chunks(8).zip(words).all(|(chunk, word)| word.starts_with(chunk))
    }

    /// The words after the first `before`.
    fn words_from(&self, before: u64) -> impl Iterator<Item = u64> + use<> {
        let mut state = self.state(before);
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
            // The high bits of a congruential generator are the good ones.
            state ^ (state >> 33)
        })
    }

    /// The generator's state after so many steps. A step is an affine map, and so is one after the
    /// other: they are squared and multiplied as powers are.
    fn state(&self, steps: u64) -> u64 {
        let after = |(a, b): (u64, u64), (factor, summand): (u64, u64)| {
            (factor.wrapping_mul(a), factor.wrapping_mul(b).wrapping_add(summand))
        };
        let (mut power, mut all, mut left) = ((MULTIPLIER, INCREMENT), (1, 0), steps);
        while left > 0 {
            if left & 1 == 1 {
                all = after(all, power);
            }
            power = after(power, power);
            left >>= 1;
        }
        all.0.wrapping_mul(self.seed).wrapping_add(all.1)
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
    fn a_part_of_it_is_known_by_where_it_begins() {
        let payload = Payload::new(5);
        let mut buffer = [0; 100];
        payload.fill(&mut buffer);
        for offset in 0..buffer.len() {
            for end in offset..=buffer.len() {
                assert!(payload.matches_from(offset, &buffer[offset..end]), "{offset} to {end}");
                let mut part = vec![0; end - offset];
                payload.fill_from(offset, &mut part);
                assert_eq!(part, buffer[offset..end], "{offset} to {end}");
            }
            buffer[99] ^= 1;
            assert!(!payload.matches_from(offset, &buffer[offset..]), "{offset}");
            buffer[99] ^= 1;
        }
        assert!(!payload.matches_from(8, &buffer[..8]));
    }

    #[test]
    fn another_seed_is_another_pattern() {
        let mut buffer = vec![0; 16];
        Payload::new(1).fill(&mut buffer);
        assert!(!Payload::new(2).matches(&buffer));
        assert!(!Payload::new(1).matches(&[0; 16]), "an untouched buffer is no payload");
    }
}
