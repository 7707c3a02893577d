//! Which database and character set a statement has chosen, for servers that do not report it.

/// What a statement changes if it succeeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change<'s> {
    /// The default database.
    pub db: Option<&'s [u8]>,
    /// The character set of statements.
    pub charset: Option<&'s [u8]>,
    /// It may change one of them in a way that is not understood.
    pub is_doubtful: bool,
}

/// Reads a statement.
pub fn change(statement: &[u8]) -> Change<'_> {
    let mut words = Words { rest: statement };
    let mut change = Change::default();
    match words.next() {
        Some(word) if is(word, "use") => change.db = words.next().map(unquoted),
        Some(word) if is(word, "set") => set(&mut words, &mut change),
        _ => {}
    }
    let rest = words.rest.trim_ascii();
    let is_simple = change.db.is_some() || change.charset.is_some();
    // Something behind it: another statement, a comment, a collation.
    if is_simple && !matches!(rest, b"" | b";") {
        return Change { is_doubtful: true, ..Change::default() };
    }
    if !is_simple && mentions(statement) {
        change.is_doubtful = true;
    }
    change
}

fn set<'s>(words: &mut Words<'s>, change: &mut Change<'s>) {
    match words.next() {
        Some(word) if is(word, "names") => {
            change.charset = words.next().map(unquoted);
            let before = words.rest;
            match words.next() {
                Some(word) if is(word, "collate") => {
                    words.next();
                }
                _ => words.rest = before,
            }
        }
        // `SET CHARACTER SET x` sets that of statements to x, too.
        Some(word) if is(word, "character") && words.next().is_some_and(|it| is(it, "set")) => {
            change.charset = words.next().map(unquoted);
        }
        Some(word) if is(word, "charset") => change.charset = words.next().map(unquoted),
        _ => {}
    }
    if change.charset.is_some_and(|name| is(name, "default")) {
        *change = Change { is_doubtful: true, ..Change::default() };
    }
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

fn unquoted(word: &[u8]) -> &[u8] {
    match word {
        [b'`', name @ .., b'`'] | [b'\'', name @ .., b'\''] | [b'"', name @ .., b'"'] => name,
        name => name,
    }
}

/// Whether any of the words that change them is in the text, wherever.
fn mentions(statement: &[u8]) -> bool {
    const LOOKED_AT: usize = 64 << 10;
    let text = &statement[..statement.len().min(LOOKED_AT)];
    let has = |word: &str| {
        text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    // Statements that merely contain these words are rare: they cost a field, not a wrong value.
    has("character_set_client")
        || has("set names")
        || has("set character")
        || has("set charset")
        || has("use ") && (has(";use ") || has("; use ") || has(";\nuse ") || has("*/use "))
}

/// Words of a statement: names, quoted names; comments and blanks are skipped.
struct Words<'s> {
    rest: &'s [u8],
}

impl<'s> Words<'s> {
    fn skip_blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_ascii_start();
            let end = match self.rest {
                // Code, for some servers.
                [b'/', b'*', b'!' | b'M', ..] => return,
                [b'/', b'*', rest @ ..] => {
                    rest.windows(2).position(|end| end == b"*/").map(|at| at + 4)
                }
                [b'#', ..] | [b'-', b'-', b' ' | b'\t' | b'\n', ..] => {
                    self.rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
                }
                _ => return,
            };
            self.rest = end.and_then(|end| self.rest.get(end..)).unwrap_or_default();
        }
    }

    fn next(&mut self) -> Option<&'s [u8]> {
        self.skip_blanks();
        let first = *self.rest.first()?;
        let end = match first {
            b'`' | b'\'' | b'"' => {
                self.rest.iter().skip(1).position(|byte| *byte == first).map(|at| at + 2)?
            }
            _ => {
                let is_end = |byte: &u8| {
                    !(byte.is_ascii_alphanumeric() || *byte >= 0x80 || matches!(byte, b'_' | b'$'))
                };
                self.rest.iter().position(is_end).unwrap_or(self.rest.len())
            }
        };
        if end == 0 {
            return None;
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_statements_are_understood() {
        let db = |text| change(text).db.map(|db| String::from_utf8_lossy(db).into_owned());
        assert_eq!(db(b"USE a").as_deref(), Some("a"));
        assert_eq!(db(b" /* x */ use `b c`;").as_deref(), Some("b c"));
        assert_eq!(db(b"SELECT 1"), None);
        let charset =
            |text| change(text).charset.map(|set| String::from_utf8_lossy(set).into_owned());
        assert_eq!(charset(b"SET NAMES latin1").as_deref(), Some("latin1"));
        assert_eq!(
            charset(b"set names 'utf8mb4' collate 'utf8mb4_bin'").as_deref(),
            Some("utf8mb4")
        );
        assert_eq!(charset(b"SET CHARACTER SET utf8").as_deref(), Some("utf8"));
    }

    #[test]
    fn what_is_not_understood_is_doubtful() {
        for text in [
            &b"USE a; USE b"[..],
            b"SELECT 1; use b",
            b"SET NAMES latin1; SELECT 1",
            b"SET NAMES DEFAULT",
            b"SET character_set_client = latin1",
            b"SET sql_mode = '', character_set_client = @x",
        ] {
            let change = change(text);
            assert!(change.is_doubtful, "{}", String::from_utf8_lossy(text));
            assert_eq!((change.db, change.charset), (None, None));
        }
        for text in
            [&b"SELECT 1"[..], b"INSERT INTO t VALUES ('use x')", b"SET autocommit = 0", b""]
        {
            assert_eq!(change(text), Change::default(), "{}", String::from_utf8_lossy(text));
        }
    }
}
