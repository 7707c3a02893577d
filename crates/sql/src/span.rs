//! Sixty-four bytes of a text, classified before any of its tokens is read: where each token
//! begins, and where words end.
//!
//! The start of a token is then known before the preceding one has been read, so that the processor
//! can work on several of them at a time.

use crate::block::{BLOCK_BYTES, Block};

/// Bytes of a span.
pub(crate) const SPAN_BYTES: usize = u64::BITS as usize;

/// A bit for each byte, the first byte's the lowest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Letters, digits, `_` and `$`.
    words: u64,
    /// Where words begin, and bytes that are neither in a word nor white space.
    starts: u64,
}

/// The starts of the remaining tokens of a span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Starts(u64);

impl Span {
    /// A token or white space begins with the first byte.
    #[inline]
    pub(crate) fn of(bytes: &[u8; SPAN_BYTES]) -> Span {
        let (mut words, mut gaps) = (0, 0);
        for (index, piece) in bytes.as_chunks::<BLOCK_BYTES>().0.iter().enumerate() {
            let block = Block::of(piece);
            words |= u64::from(block.word_bits()) << (index * BLOCK_BYTES);
            gaps |= u64::from(block.gap_bits()) << (index * BLOCK_BYTES);
        }
        Span { words, starts: !gaps & !(words & words << 1) }
    }

    /// How many letters, digits, `_` and `$` there are from `place` on, within the span.
    #[inline]
    pub(crate) fn word_bytes(self, place: usize) -> usize {
        (!(self.words >> place)).trailing_zeros() as usize
    }

    #[inline]
    pub(crate) fn starts(self) -> Starts {
        Starts(self.starts)
    }

    /// The starts of tokens from `place` on, where a token or white space begins.
    #[inline]
    pub(crate) fn starts_from(self, place: usize) -> Starts {
        // Bytes after a number may look like a part of it.
        Starts((self.starts | self.words & 1 << place) & u64::MAX << place)
    }
}

impl Starts {
    /// The offset of the next token, or [`SPAN_BYTES`].
    #[inline]
    pub(crate) fn next(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    /// The starts after the next token, which has one start in it.
    #[inline]
    pub(crate) fn rest(self) -> Starts {
        Starts(self.0 & self.0.wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::class::is_word;

    proptest! {
        #[test]
        fn tokens_begin_where_a_bytewise_reader_finds_them(
            bytes in prop::collection::vec(
                prop::sample::select(b"aZ_$09 \t\n\0,(.'`@\x7F\xC3".to_vec()),
                SPAN_BYTES,
            ),
            from in 0..SPAN_BYTES,
        ) {
            let span = Span::of(bytes[..].try_into().expect("so many"));
            let begins = |place: usize| match bytes[place] {
                byte if is_word(byte) => place == from || place == 0 || !is_word(bytes[place - 1]),
                byte => byte > b' ',
            };
            let mut starts = span.starts_from(from);
            for place in (from..SPAN_BYTES).filter(|place| begins(*place)) {
                prop_assert_eq!(starts.next(), place);
                starts = starts.rest();
                let word = bytes[place..].iter().take_while(|byte| is_word(**byte)).count();
                prop_assert_eq!(span.word_bytes(place), word);
            }
            prop_assert_eq!(starts.next(), SPAN_BYTES);
            prop_assert_eq!(span.starts().0, span.starts_from(0).0);
        }
    }
}
