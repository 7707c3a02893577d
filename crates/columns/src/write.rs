//! The content of a frame while it is put together.

use crate::bytes::{Damage, Decoded};
use crate::pattern::PlaceKind;

/// Content of a known length.
pub(crate) struct LineOutput {
    bytes: Vec<u8>,
    length: usize,
}

impl LineOutput {
    pub(crate) fn new(length: usize) -> Self {
        Self { bytes: Vec::with_capacity(length), length }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Ends a line. Fails if there is more than the length: a line alone is bounded by what its
    /// values are taken from.
    pub(crate) fn end_line(&mut self) -> Decoded<()> {
        self.bytes.push(b'\n');
        if self.bytes.len() <= self.length {
            Ok(())
        } else {
            Err(Damage("its content is too long"))
        }
    }

    /// The content.
    pub(crate) fn finish(self) -> Decoded<Vec<u8>> {
        match self.bytes.len() == self.length {
            true => Ok(self.bytes),
            false => Err(Damage("its content has another length")),
        }
    }
}

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// The decimal digits of a number, at the end of a buffer.
fn digits(number: u64, buffer: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let (mut rest, mut at) = (number, DIGITS_MAX);
    loop {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &buffer[at..];
        }
    }
}

/// Appends a number in decimal digits.
pub(crate) fn put_number(out: &mut LineOutput, number: u64) {
    out.put(digits(number, &mut [0; DIGITS_MAX]));
}

/// Appends a number with zeros before it.
pub(crate) fn put_digits(out: &mut LineOutput, number: u64, width: u8) -> Decoded<()> {
    let mut buffer = [0; DIGITS_MAX];
    let digits = digits(number, &mut buffer);
    let zeros = usize::from(width).checked_sub(digits.len());
    let zeros = zeros.ok_or(Damage("a number has too many digits"))?;
    out.put(&b"00000000000000000000"[..zeros]);
    out.put(digits);
    Ok(())
}

/// Appends hexadecimal digits. If their number is odd, the first byte is one digit.
pub(crate) fn put_hex(out: &mut LineOutput, bytes: &[u8], kind: PlaceKind, width: u8) {
    let digits: &[u8; 16] =
        if kind == PlaceKind::UpperHex { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let digit = |bits: u8| digits[usize::from(bits & 15)];
    let (odd, pairs) = bytes.split_at(usize::from(width % 2));
    out.bytes.extend(odd.iter().map(|byte| digit(*byte)));
    out.bytes.extend(pairs.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_text() {
        let mut out = LineOutput::new(26);
        put_number(&mut out, 0);
        put_number(&mut out, u64::MAX);
        put_digits(&mut out, 7, 2).unwrap();
        put_hex(&mut out, &[0xA, 0xBC], PlaceKind::LowerHex, 3);
        assert!(put_digits(&mut out, 100, 2).is_err());
        assert_eq!(out.finish().unwrap(), b"01844674407370955161507abc");
        assert!(LineOutput::new(1).finish().is_err());
        assert!(LineOutput::new(0).end_line().is_err());
    }
}
