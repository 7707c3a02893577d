//! Which database and character set a statement has chosen, for servers that do not report it.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

mod assignments;

/// What a statement changes if it succeeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change<'s> {
    /// The default database.
    pub db: Option<&'s [u8]>,
    /// The character set of statements.
    pub charset: Option<&'s [u8]>,
    /// A database that is dropped: perhaps the default one, and then there is none.
    pub dropped_db: Option<&'s [u8]>,
    /// It may change one of them in a way that is not understood.
    pub is_doubtful: bool,
    /// It is doubtful, and does not change the database.
    pub keeps_db: bool,
    /// The server may report changes no longer.
    pub ends_tracking: bool,
}

/// Reads a statement.
pub fn change(statement: &[u8]) -> Change<'_> {
    let mut words = Words { rest: statement };
    let mut change = Change::default();
    let (mut is_executed, mut is_set) = (false, false);
    match words.next() {
        Some(word) if is(word, "use") => change.db = words.next().map(unquoted),
        // `SET STATEMENT x FOR` another statement.
        Some(word) if is(word, "set") && words.clone().next().is_some_and(is_statement) => {
            return nested(statement);
        }
        Some(word) if is(word, "set") => {
            is_set = true;
            if let Some(charset) = assignments::charset(words.rest) {
                let ends_tracking = Mentions::of(statement, is_set).tracking;
                return Change { charset, ends_tracking, ..Change::default() };
            }
            set(&mut words, &mut change);
        }
        Some(word) if is(word, "drop") => match words.next() {
            Some(word) if !is_database(word) => {}
            // Perhaps a comment that is executed.
            None => change.is_doubtful = true,
            Some(_) => {
                change.dropped_db = dropped_db(&mut words);
                change.is_doubtful = change.dropped_db.is_none();
            }
        },
        // MariaDB drops the one that is there.
        Some(word) if is(word, "create") && words.next().is_some_and(|it| is(it, "or")) => {
            let is_replaced = words.next().is_none_or(|it| is(it, "replace"));
            change.is_doubtful = is_replaced && words.next().is_none_or(is_database);
        }
        // What it executes is in a variable of the session, or in a statement that was prepared.
        Some(word) if is(word, "execute") => is_executed = true,
        _ => {}
    }
    let mentions = Mentions::of(statement, is_set);
    let ends_tracking = is_executed || mentions.tracking || mentions.execution;
    let rest = words.rest.trim_ascii();
    let is_simple = change.db.is_some() || change.charset.is_some() || change.dropped_db.is_some();
    // Something behind it: another statement, a comment, a collation.
    let has_more = is_simple && !matches!(rest, b"" | b";");
    let is_doubtful = if is_simple {
        has_more || ends_tracking
    } else {
        change.is_doubtful || mentions.change || is_executed || mentions.execution
    };
    if is_doubtful {
        let keeps_db = is_set && assignments::is_alone(statement) && !mentions.execution;
        return Change { is_doubtful, keeps_db, ends_tracking, ..Change::default() };
    }
    Change { ends_tracking, ..change }
}

/// A statement within another one: any word of one that changes something is doubtful.
fn nested(statement: &[u8]) -> Change<'_> {
    let is_found = FINDER.find_iter(statement).any(|found| {
        let word = WORDS[found.pattern().as_usize()];
        word != "set" && is_word(statement, found.start(), found.end()) || word == WORDS[0]
    });
    Change { is_doubtful: is_found, ends_tracking: is_found, ..Change::default() }
}

fn is_statement(word: &[u8]) -> bool {
    is(word, "statement")
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

/// The name behind `DROP DATABASE`.
fn dropped_db<'s>(words: &mut Words<'s>) -> Option<&'s [u8]> {
    let name = words.next()?;
    if !is(name, "if") {
        return Some(unquoted(name));
    }
    words.next().filter(|word| is(word, "exists"))?;
    words.next().map(unquoted)
}

/// Whether `DATABASE` follows, or may follow in a comment that is executed.
fn has_database(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b"*/").unwrap_or(rest);
    match (Words { rest }).next() {
        Some(word) => is_database(word),
        None => rest.trim_ascii_start().starts_with(b"/*"),
    }
}

fn is_database(word: &[u8]) -> bool {
    is(word, "database") || is(word, "schema")
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

/// Words of a statement that change something, or may.
///
/// They may be in a text or a name: that is rare, and costs a field, not a wrong value.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mentions {
    /// Another database or character set.
    change: bool,
    /// A variable that says what the server reports.
    tracking: bool,
    /// A statement that is executed by its name, or from a text.
    execution: bool,
}

const WORDS: [&str; 10] = [
    "session_track_",
    "character_set_client",
    "execute",
    "drop",
    "replace",
    "use",
    "set",
    "names",
    "character",
    "charset",
];

static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .build(WORDS)
        .expect("ten words can be found")
});

/// Finds the first of these words alone, which matters in any statement.
static TRACKING_FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(&WORDS[..1])
        .expect("a word can be found")
});

impl Mentions {
    fn of(statement: &[u8], is_set: bool) -> Mentions {
        let marks = statement.iter().fold(0, |marks, byte| marks | MARKS[usize::from(*byte)]);
        let has = |mark| marks & mark != 0;
        let may_have_more = has(BEFORE) || has(LINE) && has(COMMENT);
        if !is_set && !may_have_more {
            // The other words matter only where another statement begins, or behind `SET`.
            let tracking = has(K) && has(UNDERSCORE) && TRACKING_FINDER.is_match(statement);
            return Mentions { tracking, ..Mentions::default() };
        }
        Mentions::find(statement, is_set)
    }

    fn find(statement: &[u8], is_set: bool) -> Mentions {
        let mut mentions = Mentions::default();
        let mut has_set = is_set;
        for found in FINDER.find_iter(statement) {
            let (at, end) = (found.start(), found.end());
            let is_word = || is_word(statement, at, end);
            let begins = || is_word() && may_begin(statement, at);
            match WORDS[found.pattern().as_usize()] {
                "session_track_" => mentions.tracking = true,
                // Only a `SET` changes it; drivers read it when they connect.
                "character_set_client" => mentions.change |= has_set,
                "execute" => mentions.execution |= begins(),
                // Also within a block: nothing else has these two words.
                "drop" | "replace" => {
                    mentions.change |= is_word() && has_database(&statement[end..])
                }
                "use" => mentions.change |= begins() && !is_hint(&statement[end..]),
                "set" => has_set |= begins(),
                // Of `SET NAMES`, `SET CHARACTER SET` and `SET CHARSET`.
                _ => mentions.change |= has_set && is_word(),
            }
        }
        mentions
    }
}

/// Bits of [`MARKS`]: a byte of a word.
const WORD: u8 = 1;
/// Another statement may begin behind it ([`may_begin`]).
const BEFORE: u8 = 2;
/// The same, if the line before it has a comment, which begins with one of the others.
const LINE: u8 = 4;
const COMMENT: u8 = 8;
/// Bytes of `session_track_` that are rare.
const UNDERSCORE: u8 = 16;
const K: u8 = 32;

/// What each byte may mean in a statement. Most statements have none that another statement needs,
/// and a look at each byte takes a fifth of the time of a search for the words.
static MARKS: [u8; 256] = {
    let mut marks = [0; 256];
    let mut at = 0;
    while at < marks.len() {
        let byte = at as u8;
        let is_of_word = byte.is_ascii_alphanumeric() || byte >= 0x80;
        marks[at] = match byte {
            b'_' => WORD | UNDERSCORE,
            b'k' | b'K' => WORD | K,
            b'$' => WORD,
            b';' | b'/' | b'!' => BEFORE,
            b'\n' => LINE,
            b'#' | b'-' => COMMENT,
            _ if is_of_word => WORD,
            _ => 0,
        };
        at += 1;
    }
    marks
};

fn is_of_word(byte: &u8) -> bool {
    MARKS[usize::from(*byte)] & WORD != 0
}

/// Whether the bytes are a word, and not a part of one.
fn is_word(statement: &[u8], at: usize, end: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| statement.get(at));
    // The version of a comment may stand before it without a blank.
    let is_begin = before.is_none_or(|byte| !is_of_word(byte) || byte.is_ascii_digit());
    is_begin && !statement.get(end).is_some_and(is_of_word)
}

/// Whether a statement may begin here: behind another one, or behind or within a comment.
fn may_begin(statement: &[u8], at: usize) -> bool {
    let before = &statement[..at];
    let code = before.trim_ascii_end();
    match code.last() {
        Some(b';' | b'/' | b'!') => true,
        // The version of a comment that is executed.
        Some(b'0'..=b'9') => {
            let digits = code.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
            let code = &code[..code.len() - digits];
            code.ends_with(b"/*!") || code.ends_with(b"/*M!")
        }
        // Perhaps a comment that ends with its line.
        Some(_) if before[code.len()..].contains(&b'\n') => {
            let line = code.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            line.contains(&b'#') || line.windows(2).any(|pair| pair == b"--")
        }
        _ => false,
    }
}

/// Whether the word before this is that of `USE INDEX`.
fn is_hint(rest: &[u8]) -> bool {
    let word = Words { rest }.next();
    word.is_some_and(|word| is(word, "index") || is(word, "key"))
}

/// Words of a statement: names, quoted names; comments and blanks are skipped.
#[derive(Clone)]
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
                let is_end = |byte: &u8| !is_of_word(byte);
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
mod tests;
