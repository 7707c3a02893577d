//! A JSON object, written field by field.

use tacho_record::time::TimeFormatter;
use tacho_record::{Field, Record, Value};

use crate::escape::{self, Escape, name, sql, statement};
use crate::place::Place;
use crate::words::number;

/// An object that is being written. Fields with an empty text or a missing number are omitted, and
/// so are objects without a field.
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

/// Appends an object.
pub fn object(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object)) {
    out.push(b'{');
    fill(&mut Object { out, is_empty: true });
    out.push(b'}');
}

impl Object<'_> {
    /// Begins a field; the caller appends its value to the returned buffer.
    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// A text of any form: `append` escapes it.
    pub fn made(&mut self, key: &str, append: impl FnOnce(&mut Vec<u8>)) {
        let out = self.key(key);
        out.push(b'"');
        append(out);
        out.push(b'"');
    }

    /// A text, if it is not empty.
    pub fn text(&mut self, key: &str, utf8: &[u8]) {
        if !utf8.is_empty() {
            self.made(key, |out| name::<escape::Json>(out, utf8));
        }
    }

    /// The text of the statement, if there is one.
    pub fn sql(&mut self, key: &str, record: &Record) {
        if record.sql.is_some() {
            self.made(key, |out| sql::<escape::Json>(out, record));
        }
    }

    /// The fields of the record for which the format has no name, under our own names.
    pub fn extensions(
        &mut self,
        record: &Record,
        place: impl Fn(Field) -> Place,
        clock: &mut TimeFormatter,
    ) {
        for field in Field::ALL.iter().filter(|field| place(**field) == Place::Extension) {
            let key = field.name();
            match record.value(*field) {
                Value::Number(value) => self.number(key, value),
                Value::Time(None) => {}
                Value::Time(Some(time_us)) => {
                    self.made(key, |out| out.extend_from_slice(clock.format(time_us)));
                }
                Value::Name(None) => {}
                Value::Name(Some(name)) => self.word(key, name),
                Value::Flag(value) => self.flag(key, value),
                Value::Text(text) => self.text(key, text),
                Value::Statement(None) => {}
                Value::Statement(Some(text)) => {
                    self.made(key, |out| statement::<escape::Json>(out, record, text));
                }
                Value::Tables(tables) => self.objects(key, tables, |o, used| {
                    o.word("access", used.access.name());
                    o.text("db", used.db);
                    o.text("table", used.table);
                    o.text("new_db", used.new_db);
                    o.text("new_table", used.new_table);
                }),
                Value::Attributes(attributes) => self.objects(key, attributes, |o, attribute| {
                    o.text("key", attribute.key);
                    o.text("value", attribute.value);
                }),
            }
        }
    }

    /// A word from a fixed list, which needs no escape.
    pub fn word(&mut self, key: &str, word: &str) {
        debug_assert!(!word.bytes().any(escape::Json::is_special));
        self.made(key, |out| out.extend_from_slice(word.as_bytes()));
    }

    /// A number, if there is one.
    pub fn number(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            number(self.key(key), value);
        }
    }

    /// A number that may be negative.
    pub fn signed(&mut self, key: &str, value: i64) {
        let out = self.key(key);
        if value < 0 {
            out.push(b'-');
        }
        number(out, value.unsigned_abs());
    }

    /// A flag, if it is true.
    pub fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.key(key).extend_from_slice(b"true");
        }
    }

    /// An object, if it has a field.
    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object)) {
        let (start, was_empty) = (self.out.len(), self.is_empty);
        let out = self.key(key);
        out.push(b'{');
        let mut inner = Object { out, is_empty: true };
        fill(&mut inner);
        if inner.is_empty {
            self.out.truncate(start);
            self.is_empty = was_empty;
        } else {
            self.out.push(b'}');
        }
    }

    /// A list of the texts that are not empty, if there are any.
    pub fn texts(&mut self, key: &str, texts: &[&[u8]]) {
        let mut is_first = true;
        for (index, text) in texts.iter().enumerate() {
            if text.is_empty() || texts[..index].contains(text) {
                continue;
            }
            let out = if is_first { self.key(key) } else { &mut *self.out };
            out.extend_from_slice(if is_first { b"[\"" } else { b",\"" });
            name::<escape::Json>(out, text);
            out.push(b'"');
            is_first = false;
        }
        if !is_first {
            self.out.push(b']');
        }
    }

    /// A list of objects, if there are any.
    pub fn objects<T>(&mut self, key: &str, items: &[T], fill: impl Fn(&mut Object, &T)) {
        if items.is_empty() {
            return;
        }
        let out = self.key(key);
        for (index, item) in items.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            object(out, |inner| fill(inner, item));
        }
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_omitted() {
        let mut out = Vec::new();
        object(&mut out, |o| {
            o.text("a", b"");
            o.object("b", |o| o.number("c", None));
            o.texts("d", &[b"", b""]);
            o.objects("e", &[0; 0], |_, _| {});
            o.flag("f", false);
            o.object("g", |o| o.signed("h", -5));
            o.texts("i", &[b"", b"x\"", b"x\"", b"y"]);
            o.objects("j", &[1, 2], |o, n| o.number("k", Some(*n)));
            o.flag("l", true);
        });
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"g":{"h":-5},"i":["x\"","y"],"j":[{"k":1},{"k":2}],"l":true}"#
        );
    }
}
