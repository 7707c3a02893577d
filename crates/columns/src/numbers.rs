//! Sequences of numbers: of each a token, which is compressed, and bits, which are not.
//!
//! A token has what is worth compressing: small numbers as they are, and the magnitude of others.
//! The bits below are as good as random in a log (times, counts, keys). There are two ways to
//! split a number, and the encoder takes the one that needs fewer bits:
//!
//! - *fine*: numbers below 16 are tokens, others have their length and two more bits in the token;
//! - *wide*: numbers below 192 are tokens, others have the length of what they are above 191.
//!
//! Either way, the smallest number may be subtracted from all of them first.

use std::io;
use std::sync::LazyLock;

use crate::bytes::{Cursor, Damage, Decoded, put_varint};
use crate::stream::{Packer, Unpacker};

const FINE: u8 = 0;
const WIDE: u8 = 1;
/// Added to either: the smallest number follows, and is subtracted.
const BASE: u8 = 2;
const FINE_BELOW: u64 = 16;
const WIDE_BELOW: u64 = 192;

/// Token, number of bits.
fn fine(value: u64) -> (u8, u32) {
    if value < FINE_BELOW {
        return (value as u8, 0);
    }
    let exponent = value.ilog2();
    let bits = exponent - 2;
    // 16 to 255: the exponent is 4 to 63.
    (16 + ((exponent - 4) * 4) as u8 + (value >> bits & 3) as u8, bits)
}

fn wide(value: u64) -> (u8, u32) {
    match value.checked_sub(WIDE_BELOW) {
        None => (value as u8, 0),
        Some(above) => {
            let exponent = (above + 1).ilog2();
            (WIDE_BELOW as u8 + exponent as u8, exponent)
        }
    }
}

/// What a token stands for: the smallest number, and how many bits are added to it.
type Meaning = (u64, u32);

static MEANINGS: LazyLock<[[Meaning; 256]; 2]> = LazyLock::new(|| {
    let mut meanings = [[(0, 0); 256]; 2];
    for token in 0..256_u64 {
        let (exponent, top) = (4 + token.saturating_sub(16) / 4, token % 4);
        let bits = exponent as u32 - 2;
        let of_fine = if token < FINE_BELOW { (token, 0) } else { ((4 + top) << bits, bits) };
        let bits = token.saturating_sub(WIDE_BELOW) as u32;
        let of_wide = match token < WIDE_BELOW {
            true => (token, 0),
            false => (WIDE_BELOW - 1 + (1 << bits), bits),
        };
        meanings[usize::from(FINE)][token as usize] = of_fine;
        meanings[usize::from(WIDE)][token as usize] = of_wide;
    }
    meanings
});

/// Bits that a number of equally likely choices needs, in a table.
fn entropy(counts: &[u32; 256], total: u32) -> f32 {
    let total_log = (total as f32).log2();
    let of = |count: &u32| *count as f32 * (total_log - (*count as f32).log2());
    counts.iter().filter(|count| **count > 0).map(of).sum()
}

/// Bytes that a table of tokens and the head of a stream take, about.
const TABLE_BITS: f32 = 200.0;
/// The same for a base.
const VARINT_BYTES: f32 = 4.0;

/// How numbers are split.
#[derive(Clone, Copy)]
struct Splitting {
    way: u8,
    base: u64,
    /// About.
    bits: f32,
}

/// The best way to split these numbers.
fn split(values: impl Iterator<Item = u64> + Clone) -> Splitting {
    let (way, bits) = split_above(values.clone());
    let plain = Splitting { way, base: 0, bits };
    // Smaller ones are tokens anyway.
    let Some(base) = values.clone().min().filter(|base| *base >= FINE_BELOW) else { return plain };
    let (way, bits) = split_above(values.map(|value| value - base));
    let based = Splitting { way, base, bits: bits + 8.0 * VARINT_BYTES };
    if based.bits < plain.bits { based } else { plain }
}

/// The better way to split numbers without a base, and how many bits they need, about.
fn split_above(values: impl Iterator<Item = u64>) -> (u8, f32) {
    let mut counts = [[0_u32; 256]; 2];
    let (mut bits, mut total) = ([0_u64; 2], 0);
    for value in values {
        for (way, (token, more)) in [fine(value), wide(value)].into_iter().enumerate() {
            counts[way][usize::from(token)] += 1;
            bits[way] += u64::from(more);
        }
        total += 1;
    }
    let cost = |way: usize| {
        let table = match counts[way].iter().filter(|count| **count > 0).count() {
            0 | 1 => 0.0,
            tokens => TABLE_BITS + 4.0 * tokens as f32,
        };
        entropy(&counts[way], total) + bits[way] as f32 + table
    };
    let costs = [cost(0), cost(1)];
    if costs[0] <= costs[1] { (FINE, costs[0]) } else { (WIDE, costs[1]) }
}

/// How many bits numbers need, about.
pub(crate) fn cost(values: impl Iterator<Item = u64> + Clone) -> f32 {
    split(values).bits
}

/// Appends numbers. None take no byte.
pub(crate) fn put(out: &mut Vec<u8>, values: &[u64], packer: &mut Packer) -> io::Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let Splitting { way, base, .. } = split(values.iter().copied());
    if base == 0 {
        out.push(way);
    } else {
        out.push(way + BASE);
        put_varint(out, base);
    }
    let mut tokens = Vec::with_capacity(values.len());
    let mut bits = BitWriter::default();
    for value in values.iter().map(|value| value - base) {
        let (token, more) = if way == FINE { fine(value) } else { wide(value) };
        tokens.push(token);
        bits.put(value - MEANINGS[usize::from(way)][usize::from(token)].0, more);
    }
    packer.put(out, &tokens)?;
    bits.finish(out);
    Ok(())
}

/// The next `count` numbers. The caller has bounded the count.
pub(crate) fn take(
    from: &mut Cursor<'_>,
    count: usize,
    unpacker: &mut Unpacker,
) -> Decoded<Vec<u64>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let way = from.byte()?;
    let base = if way & BASE == 0 { 0 } else { from.varint()? };
    let meanings = MEANINGS.get(usize::from(way & !BASE));
    let meanings = meanings.ok_or(Damage("numbers have an unknown form"))?;
    let tokens = unpacker.take(from, count)?;
    let bits: u64 = tokens.iter().map(|token| u64::from(meanings[usize::from(*token)].1)).sum();
    let bytes = usize::try_from(bits.div_ceil(8)).map_err(|_| Damage("it was cut"))?;
    let mut bits = BitReader::new(from.take(bytes)?);
    let number = |token: &u8| {
        let (smallest, more) = meanings[usize::from(*token)];
        // Of damaged numbers the sum may be more than a number can be.
        base.wrapping_add(smallest).wrapping_add(bits.take(more))
    };
    Ok(tokens.iter().map(number).collect())
}

#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// The last bits, the first one lowest; fewer than 8 of them between calls.
    open: u128,
    count: u32,
}

impl BitWriter {
    fn put(&mut self, value: u64, bits: u32) {
        self.open |= u128::from(value) << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.bytes.push(self.open as u8);
            self.open >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self, out: &mut Vec<u8>) {
        if self.count > 0 {
            self.bytes.push(self.open as u8);
        }
        out.append(&mut self.bytes);
    }
}

struct BitReader {
    /// With zeros behind the end, so that eight bytes can be read anywhere.
    bytes: Vec<u8>,
    at: usize,
}

impl BitReader {
    fn new(bytes: &[u8]) -> Self {
        let mut padded = Vec::with_capacity(bytes.len() + 8);
        padded.extend_from_slice(bytes);
        padded.resize(bytes.len() + 8, 0);
        Self { bytes: padded, at: 0 }
    }

    /// At most 63 bits. Behind the end there are zeros.
    fn take(&mut self, bits: u32) -> u64 {
        if bits > 32 {
            let low = self.take_few(32);
            return low | self.take_few(bits - 32) << 32;
        }
        self.take_few(bits)
    }

    fn take_few(&mut self, bits: u32) -> u64 {
        let (byte, shift) = (self.at / 8, self.at % 8);
        self.at += bits as usize;
        let word = self.bytes.get(byte..byte + 8).map_or([0; 8], |bytes| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            word
        });
        u64::from_le_bytes(word) >> shift & ((1 << bits) - 1)
    }
}

/// A signed difference as a number that is small if the difference is.
pub(crate) fn zigzag(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The number at that difference.
pub(crate) fn unzigzag(from: u64, zigzag: u64) -> u64 {
    from.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[u64]) -> usize {
        let mut out = Vec::new();
        put(&mut out, values, &mut Packer::new(1).unwrap()).unwrap();
        let mut cursor = Cursor::new(&out);
        let read = take(&mut cursor, values.len(), &mut Unpacker::new().unwrap());
        assert_eq!(read.as_deref(), Ok(values));
        assert_eq!(cursor.end(""), Ok(()));
        out.len()
    }

    #[test]
    fn numbers_of_any_size_are_read_back() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 190]);
        let mut values: Vec<u64> = edges.chain([u64::MAX, u64::MAX - 1]).collect();
        check(&values);
        values.extend(0..1000);
        check(&values);
        check(&[]);
        check(&[u64::MAX]);
        for value in values {
            for way in [fine, wide] {
                let (_, bits) = way(value);
                assert!(bits < 64);
            }
        }
        assert!(check(&[5; 10_000]) < 8);
        let near: Vec<u64> = (0..1000).map(|at| (1 << 50) + at % 3).collect();
        assert!(check(&near) < 300);
        check(&[u64::MAX - 1, u64::MAX, u64::MAX - 300]);
    }

    #[test]
    fn small_differences_are_small_numbers() {
        for (from, to, number) in [(5, 5, 0), (5, 6, 2), (5, 4, 1), (0, u64::MAX, 1)] {
            assert_eq!(zigzag(from, to), number);
        }
        for from in [0, 1, u64::MAX, 1 << 63] {
            for to in [0, 7, u64::MAX, 1 << 63] {
                assert_eq!(unzigzag(from, zigzag(from, to)), to);
            }
        }
    }
}
