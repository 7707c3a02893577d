//! The questions that filters and reports ask about a line, whether it was parsed completely or in
//! part.

use std::borrow::Cow;

use jiff::Timestamp;
use tacho_record::line::members::Members;
use tacho_record::line::{LineValue, Touched};
use tacho_record::{Field, Line};

/// A line that was read.
pub trait View {
    /// When it happened.
    fn ts(&self) -> Timestamp;

    /// A text or word; empty if the line has none.
    fn text(&self, field: Field) -> Cow<'_, str>;

    /// A number.
    fn number(&self, field: Field) -> Option<u64>;

    /// Calls `take` with the tables that it uses.
    fn tables(&self, take: &mut dyn FnMut(&[Touched]));
}

impl View for Line<'_> {
    fn ts(&self) -> Timestamp {
        self.ts
    }

    fn text(&self, field: Field) -> Cow<'_, str> {
        match self.value(field) {
            LineValue::Text(text) => Cow::Borrowed(text),
            _ => Cow::Borrowed(""),
        }
    }

    fn number(&self, field: Field) -> Option<u64> {
        match self.value(field) {
            LineValue::Number(number) => Some(number),
            _ => None,
        }
    }

    fn tables(&self, take: &mut dyn FnMut(&[Touched])) {
        take(&self.tables);
    }
}

/// A line of which some members were read, and its tables if they were wanted.
pub struct Partial<'r, 'a> {
    members: Members<'r, 'a>,
    ts: Timestamp,
    tables: Vec<Touched<'a>>,
}

impl<'r, 'a> Partial<'r, 'a> {
    /// `None`: a member is not what it should be, so that the whole line must be parsed.
    pub fn of(members: Members<'r, 'a>) -> Option<Self> {
        let ts = Timestamp::from_microsecond(members.ts_us()).ok()?;
        Some(Self { members, ts, tables: members.tables().ok()? })
    }
}

impl View for Partial<'_, '_> {
    fn ts(&self) -> Timestamp {
        self.ts
    }

    fn text(&self, field: Field) -> Cow<'_, str> {
        self.members.text(field)
    }

    fn number(&self, field: Field) -> Option<u64> {
        self.members.number(field)
    }

    fn tables(&self, take: &mut dyn FnMut(&[Touched])) {
        take(&self.tables);
    }
}
