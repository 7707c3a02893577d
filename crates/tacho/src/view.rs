//! The questions that filters and reports ask about a line, whether it was parsed completely or in
//! part.

use std::borrow::Cow;

use jiff::Timestamp;
use tacho_record::line::members::Members;
use tacho_record::line::{LineValue, Touched};
use tacho_record::{Field, Line};

/// The member `tables` of a line is not an array of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`tables` is not an array of tables")]
pub struct NotTables;

/// A line that was read.
pub trait View {
    /// When it happened.
    fn ts(&self) -> Timestamp;

    /// A text or word; empty if the line has none.
    fn text(&self, field: Field) -> Cow<'_, str>;

    /// A number.
    fn number(&self, field: Field) -> Option<u64>;

    /// The client's host name, or its address if the server resolved none.
    fn client_host(&self) -> Cow<'_, str> {
        let host = self.text(Field::host);
        if host.is_empty() { self.text(Field::ip) } else { host }
    }

    /// The kind of statement, or the protocol's command if it has none.
    fn command_name(&self) -> Cow<'_, str> {
        let sql_command = self.text(Field::sql_command);
        if sql_command.is_empty() { self.text(Field::command) } else { sql_command }
    }

    /// Calls `take` with the tables that it uses.
    ///
    /// # Errors
    /// They cannot be read: the line is broken. A line that was parsed completely never is.
    fn tables(&self, take: &mut dyn FnMut(&[Touched])) -> Result<(), NotTables>;

    /// Whether a name of its tables may contain a text. It costs less than [`View::tables`].
    fn tables_may_have(&self, _text: &str) -> bool {
        true
    }
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

    fn tables(&self, take: &mut dyn FnMut(&[Touched])) -> Result<(), NotTables> {
        take(&self.tables);
        Ok(())
    }
}

/// A line of which some members were read.
pub struct Partial<'r, 'a> {
    members: Members<'r, 'a>,
    ts: Timestamp,
}

impl<'r, 'a> Partial<'r, 'a> {
    /// `None`: the time is not one, so that the whole line must be parsed.
    pub fn of(members: Members<'r, 'a>) -> Option<Self> {
        let ts = Timestamp::from_microsecond(members.ts_us()).ok()?;
        Some(Self { members, ts })
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

    /// They are parsed only now: most lines are decided by other members.
    fn tables(&self, take: &mut dyn FnMut(&[Touched])) -> Result<(), NotTables> {
        take(&self.members.tables().map_err(|_| NotTables)?);
        Ok(())
    }

    fn tables_may_have(&self, text: &str) -> bool {
        // Only an escape can have the text in another form.
        let json = self.members.json(Field::tables);
        json.is_some_and(|json| json.contains(text) || json.contains('\\'))
    }
}
