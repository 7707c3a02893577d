//! Compiled rules: bytes without pointers.
//!
//! All numbers are little-endian. The reader checks every length: damaged bytes match nothing, and
//! never lead the reader outside the program.
//!
//! ```text
//! program  u32 number of slots, a power of two; u32 number of rules; u32 tokens of the longest
//!          pattern; u32 0; u64 bits of the first tokens; slots; rules
//! slot     u32 place of the first rule whose shape belongs here; 0 = there is none
//! rule     u64 shape; u64 id; u32 place of the next rule of the slot, or 0; u8 RULE_* bits; u8 0;
//!          u16 bytes of the database, u32 bytes of the tokens; database; tokens; u32 number of
//!          pieces, pieces
//! token    u8 CLASS_*, u8 TOKEN_* bits, u16 bytes of what follows, text
//! piece    u32 bytes of what follows, text; a parameter is between two
//! ```

use crate::shape::{Limits, Shape};

/// The session must use the named database.
pub const RULE_HAS_DATABASE: u8 = 1;
/// It has characters beyond ASCII: only for sessions whose statements are in UTF-8.
pub const RULE_NEEDS_UTF8: u8 = 2;
/// Its replacement has another meaning under ANSI_QUOTES or NO_BACKSLASH_ESCAPES.
pub const RULE_NEEDS_USUAL_MODE: u8 = 4;

/// A keyword, in any case, without quotes.
pub const CLASS_KEYWORD: u8 = 1;
/// A quoted or unquoted name.
pub const CLASS_NAME: u8 = 2;
/// A quoted name: without quotes it would be a keyword.
pub const CLASS_QUOTED: u8 = 3;
/// Exactly these bytes.
pub const CLASS_EXACT: u8 = 4;
/// This literal.
pub const CLASS_LITERAL: u8 = 5;
/// Any literal.
pub const CLASS_PARAMETER: u8 = 6;

/// A parameter: a number may have signs, because an expression begins here.
pub const TOKEN_MAY_HAVE_SIGN: u8 = 1;
/// A parameter: NULL is a value here.
pub const TOKEN_MAY_BE_NULL: u8 = 2;
/// The next token must follow directly: a function's parenthesis.
pub const TOKEN_GLUED: u8 = 4;
/// The next token must not follow directly.
pub const TOKEN_APART: u8 = 8;

/// Bytes before the slots.
pub const HEAD_BYTES: usize = 24;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 4;
/// Bytes of a rule before its database.
pub const RULE_BYTES: usize = 28;

/// Compiled rules, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Program<'p> {
    bytes: &'p [u8],
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'p> {
    /// The id given by the user.
    pub id: u64,
    shape: u64,
    next: u32,
    /// `RULE_*`
    pub flags: u8,
    /// The database that the session must use, with [`RULE_HAS_DATABASE`].
    pub database: &'p [u8],
    tokens: &'p [u8],
    pieces: &'p [u8],
}

/// A token of a pattern.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'p> {
    /// `CLASS_*`
    pub class: u8,
    /// `TOKEN_*`
    pub flags: u8,
    /// Its text.
    pub text: &'p [u8],
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Takes a length and as many bytes from the front.
fn take<'p>(bytes: &mut &'p [u8]) -> Option<&'p [u8]> {
    let length = u32_at(bytes, 0)? as usize;
    let (taken, rest) = bytes.get(4..)?.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

impl<'p> Program<'p> {
    /// From bytes of the compiler; others match nothing.
    pub fn new(bytes: &'p [u8]) -> Program<'p> {
        Program { bytes }
    }

    /// Number of rules.
    pub fn rule_count(&self) -> u32 {
        u32_at(self.bytes, 4).unwrap_or(0)
    }

    /// The shapes of the rules.
    #[inline]
    pub fn limits(&self) -> Limits {
        let tokens = u32_at(self.bytes, 8).unwrap_or(0);
        Limits { tokens, first: u64_at(self.bytes, 16).unwrap_or(0) }
    }

    /// The rules with this shape, in the order given.
    #[inline]
    pub fn rules_of(&self, shape: Shape) -> impl Iterator<Item = Rule<'p>> + use<'p> {
        let Program { bytes } = *self;
        let slots = u32_at(bytes, 0).unwrap_or(0);
        let slot = (shape.number() as u32 & slots.wrapping_sub(1)) as usize;
        let place = slot.saturating_mul(SLOT_BYTES).saturating_add(HEAD_BYTES);
        let mut next = if slots == 0 { 0 } else { u32_at(bytes, place).unwrap_or(0) };
        let rules = core::iter::from_fn(move || {
            let place = next;
            let rule = (place != 0).then(|| Rule::at(bytes, place as usize)).flatten()?;
            // Always forwards: damaged bytes cannot cause a loop.
            next = if rule.next > place { rule.next } else { 0 };
            Some(rule)
        });
        rules.filter(move |rule| rule.shape == shape.number())
    }
}

impl<'p> Rule<'p> {
    fn at(bytes: &'p [u8], place: usize) -> Option<Rule<'p>> {
        let bytes = bytes.get(place..)?;
        let flags = *bytes.get(20)?;
        let database_bytes = u16::from_le_bytes(array(bytes, 22)?);
        let token_bytes = u32_at(bytes, 24)? as usize;
        let rest = bytes.get(RULE_BYTES..)?;
        let (database, rest) = rest.split_at_checked(usize::from(database_bytes))?;
        let (tokens, pieces) = rest.split_at_checked(token_bytes)?;
        let (shape, id) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
        Some(Rule { id, shape, next: u32_at(bytes, 16)?, flags, database, tokens, pieces })
    }

    /// The tokens of its pattern.
    pub fn tokens(&self) -> impl Iterator<Item = Expected<'p>> + use<'p> {
        let mut rest = self.tokens;
        core::iter::from_fn(move || {
            let [class, flags, low, high] = array(rest, 0)?;
            let bytes = usize::from(u16::from_le_bytes([low, high]));
            let (text, behind) = rest.get(4..)?.split_at_checked(bytes)?;
            rest = behind;
            Some(Expected { class, flags, text })
        })
    }

    /// The pieces of its replacement: a parameter is between two.
    pub fn pieces(&self) -> impl Iterator<Item = &'p [u8]> + use<'p> {
        let count = u32_at(self.pieces, 0).unwrap_or(0) as usize;
        let mut rest = self.pieces.get(4..).unwrap_or_default();
        core::iter::from_fn(move || take(&mut rest)).take(count)
    }
}
