//! A token of a statement, and why there is none.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Letters, digits, `_` and `$`: a keyword or a name.
    Word,
    /// A name in backticks, or in double quotes where those are for names.
    Quoted,
    /// A number.
    Number,
    /// `'…'` or `"…"`, also `N'…'`, `X'…'` and `B'…'`.
    String,
    /// `?`
    Mark,
    /// A user variable with its `@`, or `@@`.
    Variable,
    /// `/*+ … */`
    Hint,
    /// `+` or `-`
    Sign,
    /// Another operator, a bracket, a comma, a point.
    Other,
}

/// A token, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    /// What it is.
    pub kind: Kind,
    /// Where it begins.
    pub start: usize,
    /// All of its bytes.
    pub text: &'t [u8],
}

impl<'t> Token<'t> {
    /// Where it ends.
    #[inline]
    pub fn end(&self) -> usize {
        self.start.saturating_add(self.text.len())
    }

    /// What is between the quotes of a name, quotes doubled there as they are; the token itself
    /// if it is something else.
    #[inline]
    pub fn name(&self) -> &'t [u8] {
        match (self.kind, self.text) {
            (Kind::Quoted, [_, name @ .., _]) => name,
            _ => self.text,
        }
    }

    /// Whether it is the word NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(b"NULL")
    }

    /// Whether it is a literal, or NULL, which may be one.
    #[inline]
    pub fn is_value(&self) -> bool {
        matches!(self.kind, Kind::Number | Kind::String | Kind::Mark) || self.is_null()
    }
}

/// Why a text is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A quote that is not closed.
    OpenQuote,
    /// A comment that is not closed.
    OpenComment,
    /// A versioned comment: which servers read it as a part of the statement is not known.
    Versioned,
    /// Another statement follows.
    Several,
    /// A byte that is no part of a statement.
    Byte,
    /// A word that begins with a dollar sign: in 9.x it may be a quote.
    Dollar,
    /// It depends on `sql_mode`, which is not known.
    Mode,
    /// A character beyond ASCII in another character set than UTF-8.
    Charset,
}

impl Cause {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Cause::OpenQuote => "a quote that is not closed",
            Cause::OpenComment => "a comment that is not closed",
            Cause::Versioned => "a versioned comment (`/*! ... */`) cannot be in it",
            Cause::Several => "there must be one statement only",
            Cause::Byte => "this is no part of a statement",
            Cause::Dollar => "a name that begins with `$` must be in backticks",
            Cause::Mode => "it depends on sql_mode, which is not known",
            Cause::Charset => "this is not UTF-8",
        }
    }
}

/// A text that is not read: why, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The place.
    pub at: usize,
    /// The cause.
    pub cause: Cause,
}
