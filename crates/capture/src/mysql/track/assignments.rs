//! A `SET` statement with several assignments, as drivers send it when they connect:
//! `SET autocommit = 1, sql_mode = CONCAT(@@sql_mode, ',x'), NAMES utf8mb4`.

use super::{Mentions, Words, is, unquoted};

/// The character set that the assignments behind `SET` choose, if any. `None`: they are not
/// understood.
pub fn charset(assignments: &[u8]) -> Option<Option<&[u8]>> {
    let mut charset = None;
    for item in items(assignments)? {
        let mut words = Words { rest: item };
        // Variables may begin with `@`.
        let first = words.next().unwrap_or_default();
        let is_chosen = if is(first, "character") {
            is(words.next()?, "set")
        } else {
            is(first, "names") || is(first, "charset")
        };
        if is_chosen {
            let name = unquoted(words.next()?);
            if is(name, "default") {
                return None;
            }
            if let Some(word) = words.next() {
                (is(word, "collate") && words.next().is_some()).then_some(())?;
            }
            words.rest.trim_ascii().is_empty().then_some(())?;
            charset = Some(name);
        } else if is(first, "statement") || !item.contains(&b'=') || Mentions::of(item, true).change
        {
            return None;
        }
    }
    Some(charset)
}

/// Whether a statement that begins with `SET` is one alone, and no other is within it.
pub fn is_alone(statement: &[u8]) -> bool {
    let mut words = Words { rest: statement };
    let is_set = words.next().is_some_and(|word| is(word, "set"));
    let is_plain = !statement.contains(&b';') && !statement.windows(2).any(|pair| pair == b"/*");
    is_set && is_plain && !words.next().is_some_and(|word| is(word, "statement"))
}

/// The assignments one by one. `None`: there is a comment, another statement, or a backslash, whose
/// meaning depends on a variable of the session.
fn items(assignments: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut items, mut since) = (Vec::new(), 0);
    let (mut quote, mut depth) = (None, 0_usize);
    for (at, byte) in assignments.iter().enumerate() {
        match (quote, byte) {
            (_, b'\\') => return None,
            (Some(open), _) if open == *byte => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"' | b'`') => quote = Some(*byte),
            (None, b'(') => depth += 1,
            (None, b')') => depth = depth.checked_sub(1)?,
            (None, b';' | b'#') => return None,
            (None, b'-' | b'/') => {
                let pair = &assignments[at..];
                if pair.starts_with(b"--") || pair.starts_with(b"/*") {
                    return None;
                }
            }
            (None, b',') if depth == 0 => {
                items.push(&assignments[since..at]);
                since = at + 1;
            }
            _ => {}
        }
    }
    items.push(&assignments[since..]);
    (quote.is_none() && depth == 0).then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str) -> Option<Option<String>> {
        let found = charset(text.as_bytes())?;
        Some(found.map(|name| String::from_utf8_lossy(name).into_owned()))
    }

    #[test]
    fn drivers_choose_the_character_set_among_other_things() {
        for text in [
            "autocommit=1,sql_mode=CONCAT(@@sql_mode,',STRICT_TRANS_TABLES'),\
             session_track_system_variables = CONCAT(@@global.x,',transaction_isolation'),\
             NAMES utf8mb4",
            " NAMES 'utf8mb4' COLLATE utf8mb4_bin, autocommit = 0",
            " names latin1, charset utf8mb4",
            " @a = 1, character set utf8mb4",
        ] {
            assert_eq!(chosen(text), Some(Some("utf8mb4".to_owned())), "{text}");
        }
        assert_eq!(chosen(" autocommit = 0, @x = 'NAMES; USE b'"), None, "a word of it");
        assert_eq!(chosen(" autocommit = 0, @x = ';'"), Some(None));
    }

    #[test]
    fn what_is_not_understood_chooses_nothing() {
        for text in [
            " NAMES DEFAULT",
            " NAMES latin1 x",
            " NAMES latin1; USE b",
            " NAMES latin1 -- x",
            " NAMES latin1 /* x */",
            " NAMES latin1 # x",
            " NAMES",
            " a = 'it\\', NAMES latin1",
            " a = 'open, NAMES latin1",
            " a = (1, NAMES latin1",
            " a = 1), NAMES latin1",
            " character_set_client = latin1, NAMES utf8mb4",
            " STATEMENT a = 1 FOR SELECT 1",
            " TRANSACTION READ ONLY",
            " PASSWORD FOR a",
            "",
        ] {
            assert_eq!(chosen(text), None, "{text}");
        }
    }
}
