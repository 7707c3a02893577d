//! Lines as chosen columns: `--fields`.

use std::borrow::Cow;

use anstyle::Style;
use tacho_record::line::{Attribute, LineValue, Touched};
use tacho_record::{Field, Kind, Line};

use super::row::{Align, BAD, DIM, Look, PLAIN, Role, Row, TIME_FORMAT};
use super::table::took;

/// Formats rows.
#[derive(Debug)]
pub struct Columns {
    fields: Vec<Field>,
    look: Look,
}

impl Columns {
    /// These fields, in this order.
    pub fn new(fields: Vec<Field>, look: Look) -> Self {
        Self { fields, look }
    }

    /// The names of the columns.
    pub fn header(&self) -> String {
        self.row(Role::Context, |field| (field.name().to_uppercase().into(), DIM))
    }

    /// The row of a line, with its line end.
    pub fn format(&self, line: &Line, role: Role) -> String {
        self.row(role, |field| {
            let is_bad = field == Field::errno || (field == Field::outcome && line.errno != 0);
            let style = match field {
                Field::ts => DIM,
                _ if is_bad => BAD,
                _ => PLAIN,
            };
            (self.text(field, line.value(field)), style)
        })
    }

    fn row<'l>(&self, role: Role, cell: impl Fn(Field) -> (Cow<'l, str>, Style)) -> String {
        let mut row = Row::new(&self.look, role);
        let Some((last, before)) = self.fields.split_last() else { return row.finish() };
        for field in before {
            let (text, style) = cell(*field);
            let (width, align) = width(*field);
            row.cell(&text, width, align, style);
        }
        let (text, style) = cell(*last);
        let is_sql = last.kind() == Kind::Statement && role == Role::Match;
        row.rest(&text, style, &self.look, if is_sql { &text } else { "" });
        row.finish()
    }

    fn text<'l>(&self, field: Field, value: LineValue<'l>) -> Cow<'l, str> {
        match value {
            LineValue::Missing => "".into(),
            LineValue::Number(us) if field.name().ends_with("_us") => took(us).into(),
            LineValue::Number(number) => number.to_string().into(),
            LineValue::Time(us) => match jiff::Timestamp::from_microsecond(us) {
                Ok(ts) => ts.to_zoned(self.look.zone.clone()).strftime(TIME_FORMAT).to_string(),
                Err(_) => format!("{us} µs"),
            }
            .into(),
            LineValue::Text(text) | LineValue::Json(text) => text.into(),
            LineValue::True => "true".into(),
            LineValue::Tables(tables) => {
                let one = |used: &Touched| match &*used.new_table {
                    "" => format!("{} {}.{}", used.access, used.db, used.table),
                    new => {
                        let (db, new_db) = (&used.db, &used.new_db);
                        format!("{} {db}.{} -> {new_db}.{new}", used.access, used.table)
                    }
                };
                tables.iter().map(one).collect::<Vec<_>>().join(", ").into()
            }
            LineValue::Attributes(attributes) => {
                let one = |it: &Attribute| format!("{}={}", it.key, it.value);
                attributes.iter().map(one).collect::<Vec<_>>().join(" ").into()
            }
        }
    }
}

/// The width of a column that is not the last one; its name fits.
fn width(field: Field) -> (usize, Align) {
    let (width, align) = match field.kind() {
        Kind::Instant | Kind::Time => (32, Align::Left),
        Kind::Event => (14, Align::Left),
        Kind::Outcome => (11, Align::Left),
        Kind::Seq | Kind::Number => (8, Align::Right),
        Kind::Port | Kind::Errno => (5, Align::Right),
        Kind::Flag => (4, Align::Left),
        Kind::Name | Kind::Word | Kind::CharsetName => (16, Align::Left),
        Kind::Digest => (34, Align::Left),
        Kind::Statement => (60, Align::Left),
        Kind::Message | Kind::Tables | Kind::Attributes | Kind::Params => (32, Align::Left),
    };
    (width.max(field.name().len()), align)
}
