//! Values of parameters in the text of a [`Params`](crate::codec::RecordKind::Params) record: for
//! each a byte with its kind, and, unless it is NULL, a `u32` with its length and its bytes.

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param<'a> {
    /// NULL.
    Null,
    /// A number, as JSON writes it.
    Number(&'a [u8]),
    /// In the character set of the statement.
    Text(&'a [u8]),
    /// Not necessarily text.
    Bytes(&'a [u8]),
    /// A date, a time, a decimal number: ASCII.
    Plain(&'a [u8]),
    /// In a bulk execution instead of a value: `default` or `ignore`.
    Mark(&'a [u8]),
}

const NULL: u8 = 0;

impl<'a> Param<'a> {
    fn of(kind: u8, value: &'a [u8]) -> Option<Param<'a>> {
        Some(match kind {
            1 => Param::Number(value),
            2 => Param::Text(value),
            3 => Param::Bytes(value),
            4 => Param::Plain(value),
            5 => Param::Mark(value),
            _ => return None,
        })
    }

    /// The byte of its kind, and its bytes.
    pub fn parts(self) -> (u8, &'a [u8]) {
        match self {
            Param::Null => (NULL, &[]),
            Param::Number(value) => (1, value),
            Param::Text(value) => (2, value),
            Param::Bytes(value) => (3, value),
            Param::Plain(value) => (4, value),
            Param::Mark(value) => (5, value),
        }
    }

    /// The bytes before its own in a record, and how many of them count.
    pub fn head(self) -> ([u8; 5], usize) {
        let (kind, value) = self.parts();
        let [a, b, c, d] = u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes();
        ([kind, a, b, c, d], if kind == NULL { 1 } else { 5 })
    }
}

/// Reads the values. It ends at the first one that is damaged.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    rest: &'a [u8],
}

impl<'a> Params<'a> {
    /// Of the text of a record.
    pub fn new(text: &'a [u8]) -> Params<'a> {
        Params { rest: text }
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = Param<'a>;

    fn next(&mut self) -> Option<Param<'a>> {
        let (&kind, rest) = self.rest.split_first()?;
        if kind == NULL {
            self.rest = rest;
            return Some(Param::Null);
        }
        let (&length, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(length) as usize)?;
        let param = Param::of(kind, value)?;
        self.rest = rest;
        Some(param)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let params = [
            Param::Number(b"-1"),
            Param::Null,
            Param::Text(b"a"),
            Param::Bytes(b"\xff"),
            Param::Plain(b"2026-01-02"),
            Param::Mark(b"default"),
            Param::Text(b""),
        ];
        let mut text = std::vec::Vec::new();
        for param in params {
            let (head, count) = param.head();
            text.extend_from_slice(&head[..count]);
            text.extend_from_slice(param.parts().1);
        }
        assert!(Params::new(&text).eq(params));
        for end in 0..text.len() {
            assert!(Params::new(&text[..end]).count() < params.len());
        }
        assert_eq!(Params::new(&[9, 0, 0, 0, 0]).next(), None);
        assert_eq!(Params::new(&[1, 0xff, 0xff, 0xff, 0xff, 1]).next(), None);
    }
}
