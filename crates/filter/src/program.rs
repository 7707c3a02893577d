//! A compiled filter: bytes without pointers.
//!
//! All numbers are little-endian. The reader checks every length: damaged bytes end a list early
//! and never lead the reader outside the program.
//!
//! ```text
//! program    u16 number of rules, u8 action when none matches, u8 USES_* bits, rules
//! rule       u32 bytes of what follows, u8 action, u8 number of conditions, only where the
//!            action blocks: block; conditions
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

/// The facts that the rules use, as a set of bits.
pub const USES_DB: u8 = 1;
/// See [`USES_DB`].
pub const USES_COMMAND: u8 = 2;
/// A fact that is known only when a statement has ended.
pub const USES_END: u8 = 4;
/// A rule blocks, or statements that no rule matches are blocked.
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

/// What to do if the arena is full, instead of `tacho_overflow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Overflow {
    /// Wait.
    Block = 1,
    /// Wait, but not forever.
    Timeout = 2,
    /// Do not wait.
    Drop = 3,
}

/// What is done with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Action {
    /// It is not recorded.
    pub skip: bool,
    /// It is recorded without its text.
    pub no_text: bool,
    /// The literals are removed from its text.
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

impl Action {
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
    pub const fn from_byte(byte: u8) -> Action {
        Action {
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

/// The answer to the client of a blocked statement, and the rule's name in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'p> {
    /// Error number.
    pub errno: u32,
    /// The rule's name.
    pub name: &'p [u8],
    /// Error message.
    pub message: &'p [u8],
}

/// `ER_AUDIT_API_ABORT`: the servers' error when an audit plugin aborts a statement.
pub const BLOCK_ERRNO: u32 = 3164;
/// The message to the client if a rule has none.
pub const BLOCK_MESSAGE: &str = "The statement was blocked by a rule of the audit recorder";

impl Block<'static> {
    /// For statements that no rule matches.
    pub const DEFAULT: Block<'static> =
        Block { errno: BLOCK_ERRNO, name: b"default", message: BLOCK_MESSAGE.as_bytes() };
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'p> {
    /// The action for statements that it matches.
    pub action: Action,
    /// The answer, if the action is to block.
    pub block: Option<Block<'p>>,
    conditions: &'p [u8],
}

/// One condition of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'p> {
    /// One of `FIELD_*`.
    pub field: u8,
    /// It holds if none of the items matches.
    pub negated: bool,
    items: &'p [u8],
}

impl<'p> Program<'p> {
    /// From the bytes of the compiler. No bytes: everything is recorded.
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

    /// The action for statements that no rule matches.
    pub fn default_action(&self) -> Action {
        Action::from_byte(self.bytes.get(2).copied().unwrap_or(0))
    }

    /// The rules, in their order.
    pub fn rules(&self) -> impl Iterator<Item = Rule<'p>> + use<'p> {
        let mut rest = self.bytes.get(4..).unwrap_or(&[]);
        core::iter::from_fn(move || {
            let [action, _, conditions @ ..] = take_long(&mut rest)? else { return None };
            let action = Action::from_byte(*action);
            let mut conditions = conditions;
            let block = if action.block { Some(take_block(&mut conditions)?) } else { None };
            Some(Rule { action, block, conditions })
        })
    }
}

impl<'p> Rule<'p> {
    /// Its conditions: it matches if all of them hold.
    pub fn conditions(&self) -> impl Iterator<Item = Condition<'p>> + use<'p> {
        let mut rest = self.conditions;
        core::iter::from_fn(move || {
            let [field, negated, items @ ..] = take_long(&mut rest)? else { return None };
            Some(Condition { field: *field, negated: *negated != 0, items })
        })
    }
}

impl<'p> Condition<'p> {
    /// Its items: one of them must match.
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
