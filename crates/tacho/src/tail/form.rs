//! The form in which lines are shown.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use tacho_record::{Field, Line};

use super::columns::Columns;
use super::row::{DIM, Look, Role, Row};
use super::table::Table;

/// The form of lines.
#[derive(Debug)]
pub enum Form {
    /// Unchanged.
    Lines,
    /// JSON objects with these members.
    Members(Vec<Field>),
    /// As rows.
    Table(Table, Look),
    /// As rows with these columns.
    Columns(Columns, Look),
}

impl Form {
    /// For people: `fields`, if there are any.
    pub fn for_people(fields: &[Field], look: Look) -> Self {
        match fields {
            [] => Self::Table(Table::new(look.clone()), look),
            fields => Self::Columns(Columns::new(fields.to_vec(), look.clone()), look),
        }
    }

    /// For programs.
    pub fn for_programs(fields: &[Field]) -> Self {
        if fields.is_empty() { Self::Lines } else { Self::Members(fields.to_vec()) }
    }

    /// What is written before the first line.
    pub fn header(&self) -> Option<String> {
        match self {
            Self::Lines | Self::Members(_) => None,
            Self::Table(table, _) => Some(table.header()),
            Self::Columns(columns, _) => Some(columns.header()),
        }
    }

    /// What is written before the lines of another run of the server.
    pub fn run(&self, run: u64) -> Option<String> {
        let (Self::Table(_, look) | Self::Columns(_, look)) = self else { return None };
        let mut row = Row::new(look, Role::Context);
        row.styled(&format!("--- run {run} of the server ---"), DIM);
        Some(row.finish())
    }

    /// A line, with its line end.
    ///
    /// # Errors
    /// It is not a line of the log. The filter has parsed it before, so this cannot be; but losing
    /// a line would be worse than an error.
    pub fn line<'l>(&self, bytes: &'l [u8], role: Role) -> Result<Cow<'l, [u8]>, String> {
        let text = match self {
            Self::Lines => return Ok(bytes.into()),
            Self::Members(fields) => return members(bytes, fields).map(Cow::Owned),
            Self::Table(table, _) => table.format(&Line::parse(bytes)?, role),
            Self::Columns(columns, _) => columns.format(&Line::parse(bytes)?, role),
        };
        Ok(text.into_bytes().into())
    }
}

/// The members of a line, as they are in it, in the order of `fields`. The bytes of a text that the
/// text does not give back (`_b64`) belong to it.
fn members(bytes: &[u8], fields: &[Field]) -> Result<Vec<u8>, String> {
    let all: HashMap<String, &RawValue> =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let mut before = b'{';
    for field in fields {
        for ending in ["", "_b64"] {
            let name = format!("{}{ending}", field.name());
            if let Some(value) = all.get(&name) {
                out.push(std::mem::replace(&mut before, b','));
                out.extend_from_slice(format!("\"{name}\":{value}").as_bytes());
            }
        }
    }
    out.extend_from_slice(if before == b'{' { b"{}\n" } else { b"}\n" });
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_as_in_the_line() {
        let line = br#"{"v":1,"seq":12,"ts":"2026-11-21T10:00:00Z","event":"statement","user":"\u00e4","sql":"a\ufffd","sql_b64":"Yf8=","sql_charset":"utf8mb4","tables":[{"access":"read"}]}"#;
        let shown = |fields: &[Field]| String::from_utf8(members(line, fields).unwrap()).unwrap();
        assert_eq!(
            shown(&[Field::user, Field::seq]),
            concat!(r#"{"user":"\u00e4","seq":12}"#, "\n")
        );
        assert_eq!(shown(&[Field::sql]), "{\"sql\":\"a\\ufffd\",\"sql_b64\":\"Yf8=\"}\n");
        assert_eq!(shown(&[Field::errno, Field::tables]), "{\"tables\":[{\"access\":\"read\"}]}\n");
        assert_eq!(shown(&[Field::errno]), "{}\n");
        assert!(members(b"{", &[Field::errno]).is_err());
    }
}
