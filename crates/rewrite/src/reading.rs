//! Settings that the reading of a text depends on.

/// Settings that the reading of a text depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// `"…"` is a name: ANSI_QUOTES.
    pub ansi_quotes: bool,
    /// A backslash is an ordinary character: NO_BACKSLASH_ESCAPES.
    pub no_escapes: bool,
    /// Both are unknown: text that depends on them is rejected.
    pub is_unknown: bool,
    /// The text is UTF-8 (or bytes without a character set). If not, only ASCII is read.
    pub is_utf8: bool,
}

impl Reading {
    /// The server's default `sql_mode`, and UTF-8.
    pub const USUAL: Reading =
        Reading { ansi_quotes: false, no_escapes: false, is_unknown: false, is_utf8: true };

    /// The same as bits.
    pub fn modes(self) -> Modes {
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        Modes(
            bit(self.ansi_quotes, Modes::ANSI_QUOTES)
                | bit(self.no_escapes, Modes::NO_ESCAPES)
                | bit(self.is_unknown, Modes::UNKNOWN)
                | bit(self.is_utf8, Modes::UTF8),
        )
    }
}

/// A [`Reading`] as bits, from which a form is computed in few instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes(pub u32);

impl Modes {
    /// [`Reading::ansi_quotes`]
    pub const ANSI_QUOTES: u32 = 1;
    /// [`Reading::no_escapes`]
    pub const NO_ESCAPES: u32 = 2;
    /// [`Reading::is_unknown`]
    pub const UNKNOWN: u32 = 4;
    /// [`Reading::is_utf8`]
    pub const UTF8: u32 = 8;

    /// Whether a bit is set.
    #[inline]
    pub const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    /// The same as a structure.
    pub const fn reading(self) -> Reading {
        Reading {
            ansi_quotes: self.has(Modes::ANSI_QUOTES),
            no_escapes: self.has(Modes::NO_ESCAPES),
            is_unknown: self.has(Modes::UNKNOWN),
            is_utf8: self.has(Modes::UTF8),
        }
    }
}
