//! Removes secrets from statement text, failing closed.
//!
//! Passwords and keys must not reach the disk, whatever the statement looks like: with comments
//! between its words, in any case, character set and `sql_mode`, inside `/*! … */`, inside the
//! literal of a PREPARE, truncated or with a syntax error. `docs/specs/redaction.md` defines what a
//! secret is, what is kept and why.
//!
//! | module | what it owns |
//! |---|---|
//! | `filter` | the quick check that lets ordinary statements through |
//! | `literals` | statements without any literal |
//! | `message` | error messages without any literal |
//! | `bare` | texts without literals, where the rules would take too long |
//! | `clause` | whether a word begins a clause with a secret, or is a name that looks like one |
//! | `high` | which bytes above 0x7F are letters |
//! | `lexer` | tokens, under one guess at the settings that the recorder does not get |
//! | `scan` | the rules: where secrets are |
//! | `strict` | the rules: what is kept after a word like IDENTIFIED |
//! | `params` | which parameters of a prepared statement are secrets |
//! | `parts` | URLs that an expression concatenates from several literals |
//! | `url` | passwords in URLs |
//! | `words` | the words that the rules know |
//! | `patch` | ranges to remove, and the text without them |
//!
//! Characters that end in an ASCII byte, and the ends of quotes and comments, are in the modules
//! `text` and `grouping`.
//!
//! The safety argument: the server's way of reading a statement is one of the readings tried here,
//! and everything that any reading calls a secret is removed. If that set cannot be complete, the
//! whole text is removed.

mod bare;
mod clause;
mod filter;
mod high;
mod lexer;
mod literals;
mod message;
mod params;
mod parts;
mod patch;
mod scan;
mod strict;
mod url;
mod words;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::Mode;
use crate::grouping::{self, Grouping};

use lexer::{REDACTED, SECRET};
pub use literals::{Parsed, literals};
pub use message::without_literals as message_without_literals;
pub use params::{SecretParams, is_secret_param, secret_params};
use scan::Pass;
pub use scan::shows_prepared;

/// Passes over a text until nothing more is found. Two are enough unless a text was crafted to have
/// several readings.
const PASSES_MAX: usize = 4;

/// Facts about a statement, beside its text.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    mode: Mode,
    /// No word can be found in such a character set.
    is_wide: bool,
    in_mysql: bool,
    is_part: bool,
}

/// The origin of a text, for the rules.
#[derive(Clone, Copy)]
struct TextOrigin {
    /// The current database is `mysql`.
    in_mysql: bool,
    /// The end of the text is missing.
    is_part: bool,
}

impl Setting {
    /// `charset` is the character set in which the client sent the statement, by the server's name;
    /// `db` is the current database, empty if there is none or it is unknown. It only matters if it
    /// is `mysql`, where `UPDATE user …` is about accounts.
    pub fn of(charset: &[u8], db: &[u8]) -> Setting {
        Setting {
            mode: Mode::new(Grouping::of(charset), high::of(charset)),
            is_wide: grouping::is_wide(charset),
            in_mysql: db.eq_ignore_ascii_case(b"mysql"),
            is_part: false,
        }
    }

    /// The same for the beginning of a text: the word that makes a literal a secret may follow
    /// later, so every literal and comment is treated as one.
    pub fn of_part(self) -> Setting {
        Setting { is_part: true, ..self }
    }
}

impl Setting {
    /// How statements of this character set are read for their digests: with the server's default
    /// `sql_mode`. `None`: no word can be found in them.
    pub fn digest_mode(&self) -> Option<Mode> {
        (!self.is_wide).then_some(self.mode)
    }

    /// Whether only the text and its character set decide what is a secret in it.
    pub fn is_ordinary(&self) -> bool {
        !self.is_wide && !self.in_mysql && !self.is_part
    }

    /// Whether it is unknown how bytes above 0x7F group into characters.
    fn has_unknown_characters(&self) -> bool {
        self.mode.grouping == Grouping::Unknown
    }
}

/// `sql` without passwords and keys.
///
/// Each secret becomes `<secret>`. If a text cannot be distinguished from a secret up to its end,
/// `<redacted>` replaces all of it. The text is borrowed if, and only if, nothing was removed. The
/// result is at most eight times as long as `sql`, plus ten bytes, and redacting it again does not
/// change it.
///
/// If there is not enough memory for the work, the text is removed, too.
///
/// Redact first and shorten afterwards: the word that makes a literal a secret can come after
/// the literal.
pub fn secrets(sql: &[u8], setting: Setting) -> Cow<'_, [u8]> {
    let Setting { mode: Mode { grouping, .. }, is_wide, in_mysql, is_part } = setting;
    if is_wide {
        return if sql.is_empty() || sql == REDACTED {
            Cow::Borrowed(sql)
        } else {
            Cow::Owned(REDACTED.to_vec())
        };
    }
    if !in_mysql && !is_part && !filter::suspects(sql) {
        return Cow::Borrowed(sql);
    }
    take_out(sql, grouping, TextOrigin { in_mysql, is_part })
}

/// The value of a variable or option without passwords and keys; `name` may have hyphens instead of
/// its underscores. The value may also be SQL, as that of `init_connect`.
pub fn value<'v>(name: &[u8], value: &'v [u8]) -> Cow<'v, [u8]> {
    if !value.is_empty() && (is_secret_name(name) || url::has_password(value)) {
        return Cow::Borrowed(SECRET);
    }
    secrets(value, Setting::of(b"utf8mb4", b""))
}

/// Whether the value of a variable or option always is a password or a key; `name` as in [`value`].
pub fn is_secret_name(name: &[u8]) -> bool {
    /// The meaning of names that are longer than the server's is unknown.
    const NAME_BYTES_MAX: usize = 64;
    let name: Vec<u8> = name.iter().map(|byte| if *byte == b'-' { b'_' } else { *byte }).collect();
    name.len() > NAME_BYTES_MAX || words::is_secret_name(words::Word::new(&name).text())
}

#[inline(never)]
fn take_out(sql: &[u8], grouping: Grouping, place: TextOrigin) -> Cow<'_, [u8]> {
    if let Some(text) = pass_until_clean(Cow::Borrowed(sql), grouping, place) {
        return text;
    }
    // A crafted text must not hide a statement in it.
    let bare = [bare::without_literals(sql, grouping), bare::beginning(sql)];
    let mut clean = bare
        .into_iter()
        .filter_map(|text| pass_until_clean(Cow::Owned(text.ok()?), grouping, place));
    clean.next().map_or_else(|| Cow::Owned(REDACTED.to_vec()), |text| Cow::Owned(text.into_owned()))
}

/// The text in which no pass finds anything more; `None`: there is too much to find.
fn pass_until_clean(
    mut text: Cow<'_, [u8]>,
    grouping: Grouping,
    place: TextOrigin,
) -> Option<Cow<'_, [u8]>> {
    for _ in 0..=PASSES_MAX {
        match scan::pass(&text, grouping, place) {
            Pass::Clean => return Some(text),
            Pass::Changed(next) => text = Cow::Owned(next),
            Pass::TooMuch => return None,
        }
    }
    None
}
