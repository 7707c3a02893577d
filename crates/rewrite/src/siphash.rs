//! SipHash-1-3 of 64-bit words (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
//!
//! The crate `siphasher` computes the same, and the tests compare the two. It also takes single
//! bytes and keeps what is left of a word, which adds 149 instructions to a point select. Here the
//! caller has whole words, and no two messages have the same ones, so the length is not appended.

/// Rounds after the last word.
const FINAL_ROUNDS: usize = 3;

/// A hash that has taken some words.
pub(crate) struct SipHash([u64; 4]);

impl SipHash {
    /// Of no words yet.
    #[inline]
    pub(crate) fn new([k0, k1]: [u64; 2]) -> SipHash {
        SipHash([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    fn round(&mut self) {
        let [mut v0, mut v1, mut v2, mut v3] = self.0;
        v0 = v0.wrapping_add(v1);
        v1 = v1.rotate_left(13) ^ v0;
        v0 = v0.rotate_left(32);
        v2 = v2.wrapping_add(v3);
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.wrapping_add(v3);
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(17) ^ v2;
        v2 = v2.rotate_left(32);
        self.0 = [v0, v1, v2, v3];
    }

    /// Takes one more word.
    #[inline]
    pub(crate) fn word(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    /// The hash of the words.
    #[inline]
    pub(crate) fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        for _ in 0..FINAL_ROUNDS {
            self.round();
        }
        let [v0, v1, v2, v3] = self.0;
        v0 ^ v1 ^ v2 ^ v3
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    use super::*;

    proptest! {
        #[test]
        fn equals_the_library(k0: u64, k1: u64, words in prop::collection::vec(any::<u64>(), 0..20)) {
            let mut library = SipHasher13::new_with_keys(k0, k1);
            let mut own = SipHash::new([k0, k1]);
            for word in &words {
                library.write_u64(*word);
                own.word(*word);
            }
            // The length in bytes, which the library appends, in the highest byte.
            own.word((words.len() as u64 * 8) << 56);
            prop_assert_eq!(own.finish(), library.finish());
        }
    }
}
