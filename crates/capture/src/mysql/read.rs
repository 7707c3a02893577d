//! Reads the values of a packet; `None` where it is too short.

/// The part of a packet that was not read yet.
#[derive(Clone, Copy)]
pub struct Reader<'r> {
    rest: &'r [u8],
}

impl<'r> Reader<'r> {
    /// Of a payload.
    pub fn new(payload: &'r [u8]) -> Reader<'r> {
        Reader { rest: payload }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'r [u8] {
        self.rest
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next bytes.
    pub fn take(&mut self, bytes: usize) -> Option<&'r [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number in one to nine bytes. `None` also for the marks of NULL and of an error.
    pub fn lenenc(&mut self) -> Option<u64> {
        match self.u8()? {
            small @ 0..=0xfa => Some(small.into()),
            0xfc => self.u16().map(u64::from),
            0xfd => self.array().map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]).into()),
            0xfe => self.array().map(u64::from_le_bytes),
            _ => None,
        }
    }

    /// A text with its length before it.
    pub fn lenenc_bytes(&mut self) -> Option<&'r [u8]> {
        let bytes = self.lenenc()?;
        self.take(usize::try_from(bytes).ok()?)
    }

    /// A text with a NUL behind it.
    pub fn nul_bytes(&mut self) -> Option<&'r [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let text = self.take(end)?;
        self.u8()?;
        Some(text)
    }

    /// A text with a NUL behind it, or at the end of the packet.
    pub fn nul_or_rest(&mut self) -> &'r [u8] {
        self.nul_bytes().unwrap_or_else(|| std::mem::take(&mut self.rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts() {
        let bytes = b"\x05\xfc\x01\x02\xfd\x01\x02\x03\xfe\x01\0\0\0\0\0\0\x80\xfb\x03abcxy\0z";
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.lenenc(), Some(5));
        assert_eq!(reader.lenenc(), Some(0x201));
        assert_eq!(reader.lenenc(), Some(0x03_02_01));
        assert_eq!(reader.lenenc(), Some(0x8000_0000_0000_0001));
        assert_eq!(reader.lenenc(), None, "NULL");
        assert_eq!(reader.lenenc_bytes(), Some(&b"abc"[..]));
        assert_eq!(reader.nul_bytes(), Some(&b"xy"[..]));
        assert_eq!(reader.nul_bytes(), None);
        assert_eq!(reader.nul_or_rest(), b"z");
        assert!(reader.is_empty());
        assert_eq!(Reader::new(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xffx").lenenc_bytes(), None);
    }
}
