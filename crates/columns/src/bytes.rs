//! Numbers of variable length, and a cursor that never reads behind the end.

/// What is wrong with encoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage(pub(crate) &'static str);

impl std::fmt::Display for Damage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for Damage {}

/// A value that was decoded, or the damage.
pub(crate) type Decoded<T> = Result<T, Damage>;

/// The longest form of a number, bytes.
const VARINT_BYTES_MAX: u32 = 10;

/// Appends a number: seven bits in a byte, the lowest first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that are read from their beginning.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, count: usize) -> Decoded<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Damage("it was cut"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Decoded<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn varint(&mut self) -> Decoded<u64> {
        let mut value = 0;
        for at in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if at == VARINT_BYTES_MAX - 1 && byte > 1 {
                break;
            }
            value |= bits << (7 * at);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damage("a number is too long"))
    }

    /// A number of things, at most `max`.
    pub(crate) fn count(&mut self, max: usize) -> Decoded<usize> {
        let count = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if count <= max { Ok(count) } else { Err(Damage("a number of things is too large")) }
    }

    /// Fails with this text if there is more.
    pub(crate) fn end(&self, text: &'static str) -> Decoded<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Damage(text)) }
    }
}

/// What is left of a bound. Everything that takes memory is taken from one first.
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    pub(crate) fn left(&self) -> usize {
        self.0
    }

    pub(crate) fn spend(&mut self, bytes: usize) -> Decoded<()> {
        self.0 = self.0.checked_sub(bytes).ok_or(Damage("it has too much content"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_are_read_back() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.varint(), Ok(value));
            assert_eq!(cursor.end(""), Ok(()));
            assert!(Cursor::new(&bytes[..bytes.len() - 1]).varint().is_err());
        }
        assert!(Cursor::new(&[0xFF; 10]).varint().is_err());
        assert!(Cursor::new(&[5]).count(4).is_err());
    }

    #[test]
    fn a_budget_is_not_exceeded() {
        let mut budget = Budget::new(5);
        assert!(budget.spend(5).is_ok() && budget.spend(1).is_err());
    }
}
