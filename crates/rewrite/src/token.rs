//! A token of a statement, or why there is none.

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Letters, digits, `_` and `$`: a keyword or a name.
    Word,
    /// A name in backticks, or in double quotes if those are for names.
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

/// A token and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    /// Its kind.
    pub kind: Kind,
    /// Its start.
    pub start: usize,
    /// All of its bytes.
    pub text: &'t [u8],
}

impl<'t> Token<'t> {
    /// Its end.
    #[inline]
    pub fn end(&self) -> usize {
        self.start.saturating_add(self.text.len())
    }

    /// The contents of a quoted name, with doubled quotes unchanged; the token itself if it is
    /// something else.
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

/// Why a text is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A quote that is not closed.
    OpenQuote,
    /// A comment that is not closed.
    OpenComment,
    /// A versioned comment: it is unknown which servers execute it.
    Versioned,
    /// Another statement follows.
    Several,
    /// A byte that cannot be part of a statement.
    Byte,
    /// A word that begins with a dollar sign: in 9.x it may be a quote.
    Dollar,
    /// It depends on `sql_mode`, which is unknown.
    Mode,
    /// A character beyond ASCII in a character set other than UTF-8.
    Charset,
}

impl Cause {
    /// As a message.
    pub const fn text(self) -> &'static str {
        match self {
            Cause::OpenQuote => "a quote that is not closed",
            Cause::OpenComment => "a comment that is not closed",
            Cause::Versioned => "a versioned comment (`/*! ... */`) is not supported",
            Cause::Several => "there must be one statement only",
            Cause::Byte => "this cannot be part of a statement",
            Cause::Dollar => "a name that begins with `$` must be in backticks",
            Cause::Mode => "this depends on sql_mode, which is unknown",
            Cause::Charset => "this is not UTF-8",
        }
    }
}

/// Why a text is rejected, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The position.
    pub at: usize,
    /// The cause.
    pub cause: Cause,
}
