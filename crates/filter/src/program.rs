//! A compiled filter: bytes without pointers.
//!
//! All numbers are little-endian. The reader checks every length: damaged bytes end a list early
//! and never lead it outside of them.
//!
//! ```text
//! program    u16 number of rules, u8 treatment when none matches, u8 USES_* bits, rules
//! rule       u32 bytes of what follows, u8 treatment, u8 number of conditions, only where the
//!            treatment blocks: block; conditions
//! block      u32 error number, u16 bytes of the name, name, u16 bytes of the message, message
//! condition  u32 bytes of what follows, u8 FIELD_*, u8 1 = negated, items
//! item       u16 bytes of what follows, and by field:
//!            user, db, command, program   a pattern (see `glob`)
//!            host                         u8 0, pattern; or u8 1, u8 prefix bits, u128 address
//!            table                        u16 bytes of the first, pattern of database, of table
//!            sql_command                  32 bytes, bit n: command n; u8 1 = also unknown ones
//!            event                        u8, bit of each `Event`
//!            errno                        u32 first, u32 last
//! ```

/// What the rules look at, as a set of bits.
pub const USES_DB: u8 = 1;
/// See [`USES_DB`].
pub const USES_COMMAND: u8 = 2;
/// Something that is known only when a statement has ended.
pub const USES_END: u8 = 4;
/// A rule blocks, or what no rule matches is blocked.
pub const USES_BLOCK: u8 = 8;
/// See [`USES_DB`].
pub const USES_TABLE: u8 = 16;
/// See [`USES_DB`].
pub const USES_ERRNO: u8 = 32;

/// The fields that a condition can be about.
pub const FIELD_USER: u8 = 0;
/// See [`FIELD_USER`].
pub const FIELD_HOST: u8 = 1;
/// See [`FIELD_USER`].
pub const FIELD_DB: u8 = 2;
/// See [`FIELD_USER`].
pub const FIELD_TABLE: u8 = 3;
/// See [`FIELD_USER`].
pub const FIELD_SQL_COMMAND: u8 = 4;
/// See [`FIELD_USER`].
pub const FIELD_EVENT: u8 = 5;
/// See [`FIELD_USER`].
pub const FIELD_ERRNO: u8 = 6;
/// See [`FIELD_USER`].
pub const FIELD_COMMAND: u8 = 7;
/// See [`FIELD_USER`].
pub const FIELD_PROGRAM: u8 = 8;

/// Bytes of the set of SQL commands.
pub const COMMAND_SET_BYTES: usize = 33;

/// What to do when the arena is full, instead of what `tacho_overflow` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Overflow {
    /// Wait.
    Block = 1,
    /// Wait, but not for ever.
    Timeout = 2,
    /// Do not wait.
    Drop = 3,
}

/// What is done with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Treatment {
    /// It is not recorded.
    pub skip: bool,
    /// It is recorded without its text.
    pub no_text: bool,
    /// The literals are taken out of its text.
    pub literals: bool,
    /// `None`: as `tacho_overflow` says.
    pub overflow: Option<Overflow>,
    /// It is not executed; and recorded.
    pub block: bool,
}

const SKIP: u8 = 1;
const NO_TEXT: u8 = 2;
const LITERALS: u8 = 4;
const OVERFLOW_SHIFT: u8 = 3;
const BLOCK: u8 = 32;

impl Treatment {
    /// As one byte.
    pub const fn to_byte(self) -> u8 {
        let overflow = match self.overflow {
            Some(overflow) => overflow as u8,
            None => 0,
        };
        (if self.skip { SKIP } else { 0 })
            | (if self.no_text { NO_TEXT } else { 0 })
            | (if self.literals { LITERALS } else { 0 })
            | (if self.block { BLOCK } else { 0 })
            | (overflow << OVERFLOW_SHIFT)
    }

    /// From one byte.
    pub const fn from_byte(byte: u8) -> Treatment {
        Treatment {
            skip: byte & SKIP != 0,
            no_text: byte & NO_TEXT != 0,
            literals: byte & LITERALS != 0,
            overflow: match (byte >> OVERFLOW_SHIFT) & 3 {
                1 => Some(Overflow::Block),
                2 => Some(Overflow::Timeout),
                3 => Some(Overflow::Drop),
                _ => None,
            },
            block: byte & BLOCK != 0,
        }
    }
}

/// A compiled filter, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Program<'p> {
    bytes: &'p [u8],
}

/// What a client is told whose statement is blocked, and what the log says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'p> {
    /// Error number.
    pub errno: u32,
    /// Which rule it is.
    pub name: &'p [u8],
    /// Error message.
    pub message: &'p [u8],
}

/// `ER_AUDIT_API_ABORT`: what the servers say when an audit plugin aborts a statement.
pub const BLOCK_ERRNO: u32 = 3164;
/// What a client is told where a rule has no message.
pub const BLOCK_MESSAGE: &str = "The statement was blocked by a rule of the audit recorder";

impl Block<'static> {
    /// Of what no rule matches.
    pub const DEFAULT: Block<'static> =
        Block { errno: BLOCK_ERRNO, name: b"default", message: BLOCK_MESSAGE.as_bytes() };
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'p> {
    /// What is done with what it matches.
    pub treatment: Treatment,
    /// Where that is to block it.
    pub block: Option<Block<'p>>,
    conditions: &'p [u8],
}

/// One condition of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'p> {
    /// One of `FIELD_*`.
    pub field: u8,
    /// It holds when none of the items matches.
    pub negated: bool,
    items: &'p [u8],
}

impl<'p> Program<'p> {
    /// Of the bytes that the compiler has made. No bytes: everything is recorded.
    pub const fn new(bytes: &'p [u8]) -> Program<'p> {
        Program { bytes }
    }

    /// Whether there is nothing to decide.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// `USES_*` bits.
    pub fn uses(&self) -> u8 {
        self.bytes.get(3).copied().unwrap_or(0)
    }

    /// Number of rules.
    pub fn rule_count(&self) -> u16 {
        self.bytes.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    /// What is done with what no rule matches.
    pub fn default_treatment(&self) -> Treatment {
        Treatment::from_byte(self.bytes.get(2).copied().unwrap_or(0))
    }

    /// The rules, in their order.
    pub fn rules(&self) -> impl Iterator<Item = Rule<'p>> + use<'p> {
        let mut rest = self.bytes.get(4..).unwrap_or(&[]);
        core::iter::from_fn(move || {
            let [treatment, _, conditions @ ..] = take_long(&mut rest)? else { return None };
            let treatment = Treatment::from_byte(*treatment);
            let mut conditions = conditions;
            let block = if treatment.block { Some(take_block(&mut conditions)?) } else { None };
            Some(Rule { treatment, block, conditions })
        })
    }
}

impl<'p> Rule<'p> {
    /// Its conditions: it matches when all of them hold.
    pub fn conditions(&self) -> impl Iterator<Item = Condition<'p>> + use<'p> {
        let mut rest = self.conditions;
        core::iter::from_fn(move || {
            let [field, negated, items @ ..] = take_long(&mut rest)? else { return None };
            Some(Condition { field: *field, negated: *negated != 0, items })
        })
    }
}

impl<'p> Condition<'p> {
    /// Its items: one of them has to match.
    pub fn items(&self) -> impl Iterator<Item = &'p [u8]> + use<'p> {
        let mut rest = self.items;
        core::iter::from_fn(move || take_short(&mut rest))
    }
}

/// Takes a length of four bytes and that many bytes.
fn take_long<'p>(rest: &mut &'p [u8]) -> Option<&'p [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let (taken, left) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = left;
    Some(taken)
}

fn take_block<'p>(rest: &mut &'p [u8]) -> Option<Block<'p>> {
    let (errno, behind) = rest.split_first_chunk()?;
    *rest = behind;
    let (name, message) = (take_short(rest)?, take_short(rest)?);
    Some(Block { errno: u32::from_le_bytes(*errno), name, message })
}

/// Takes a length of two bytes and that many bytes.
pub(crate) fn take_short<'p>(rest: &mut &'p [u8]) -> Option<&'p [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let (taken, left) = behind.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    *rest = left;
    Some(taken)
}
