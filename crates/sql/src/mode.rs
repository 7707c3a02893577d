//! How a statement is read.

use crate::grouping::Grouping;

/// The settings that a statement's tokens depend on, beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// How bytes group into characters.
    pub grouping: Grouping,
    /// Which bytes above 0x7F are letters.
    pub high: High,
    /// A backslash escapes in `'…'`: not NO_BACKSLASH_ESCAPES.
    pub escapes: bool,
    /// A backslash escapes in `"…"`, which is a literal: not ANSI_QUOTES.
    pub escapes_in_double: bool,
    /// `"…"` is a name, as under ANSI_QUOTES; then `escapes_in_double` is ignored.
    pub ansi_quotes: bool,
    /// What to do if the text is ambiguous.
    pub doubt: Doubt,
}

/// What to do if an unknown setting decides which parts are literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Read it as [`Mode`] says.
    Guess,
    /// Keep nothing from there on: [`REDACTED`](crate::digest::REDACTED) replaces the rest. Beside
    /// `sql_mode`, it is unknown how the server treats versioned comments. The marks that the
    /// redaction of secrets leaves in a text are literals.
    Stop,
    /// As `Stop`, but what a backslash escapes is known.
    StopButEscapes,
}

/// Bytes above 0x7F of a character set: letters, white space, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct High {
    letters: u128,
    spaces: u128,
}

impl High {
    /// All are letters: character sets with several bytes for a character.
    pub const LETTERS: High = High { letters: u128::MAX, spaces: 0 };

    /// From the character of each byte from 0x80 to 0xFF.
    pub fn of(character: impl Fn(u8) -> Option<char>) -> High {
        let mut high = High { letters: 0, spaces: 0 };
        for byte in 0x80..=0xFF_u8 {
            let bit = 1 << (byte - 0x80);
            match character(byte) {
                Some(letter) if letter.is_alphanumeric() => high.letters |= bit,
                Some(space) if space.is_whitespace() || space.is_control() => high.spaces |= bit,
                _ => {}
            }
        }
        high
    }

    #[inline]
    pub(crate) fn is_letter(self, byte: u8) -> bool {
        self.letters >> (byte & 0x7F) & 1 != 0
    }

    #[inline]
    pub(crate) fn is_space(self, byte: u8) -> bool {
        self.spaces >> (byte & 0x7F) & 1 != 0
    }
}

impl Mode {
    /// The server's default `sql_mode`.
    pub fn new(grouping: Grouping, high: High) -> Mode {
        Mode {
            grouping,
            high,
            escapes: true,
            escapes_in_double: true,
            ansi_quotes: false,
            doubt: Doubt::Guess,
        }
    }

    pub(crate) fn stops(self) -> bool {
        self.doubt != Doubt::Guess
    }
}
