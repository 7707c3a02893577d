//! The specification has the fields of the table in `src/fields.rs`: in the table of
//! `docs/specs/record.md`, and in the JSON Schema. `TACHO_BLESS=1 cargo test -p tacho-record --test
//! specification` writes both.

use std::fs;

use serde_json::{Value, json};
use tacho_record::{ACTIONS, CLASSES, EventKind, Field, Kind, Outcome, TableAccess};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/specs/record.md");
const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/specs/record.schema.json");

/// The content of a file; with `TACHO_BLESS`, the expected content.
fn found(path: &str, expected: &str) -> String {
    if std::env::var_os("TACHO_BLESS").is_some() {
        fs::write(path, expected).expect(path);
    }
    fs::read_to_string(path).expect(path)
}

const HINT: &str =
    "not as crates/record/src/fields.rs has it: run this test with TACHO_BLESS=1, read the change";

/// The type of a field, in the words of the page.
fn type_of(field: Field) -> &'static str {
    match field.kind() {
        Kind::Seq | Kind::Number | Kind::Port | Kind::Errno => "number",
        Kind::Instant | Kind::Time => "time",
        Kind::Event | Kind::Outcome | Kind::Word => "word",
        Kind::Flag => "`true`",
        Kind::Name | Kind::Message | Kind::Statement | Kind::CharsetName | Kind::Digest => "text",
        Kind::Tables | Kind::Attributes | Kind::Params => "array",
    }
}

fn row(cells: [&str; 5]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The table, from its header to its last row.
fn table() -> String {
    let mut table = row(["field", "type", "unit or values", "present", "source"]);
    table += "|---|---|---|---|---|\n";
    table += &row(["`v`", "number", "1", "always", "this format"]);
    for &field in Field::ALL {
        let name = format!("`{}`", field.name());
        table += &row([&name, type_of(field), field.what(), field.present(), field.source()]);
    }
    table
}

#[test]
fn the_page_has_the_fields() {
    let page = fs::read_to_string(PAGE).expect(PAGE);
    let begin = page.find("| field | type |").expect("the table of fields");
    let end = begin + page[begin..].find("\n\n").expect("its end") + 1;
    let expected = [&page[..begin], &table(), &page[end..]].concat();
    for (found, expected) in found(PAGE, &expected).lines().zip(expected.lines()) {
        assert_eq!(found, expected, "{HINT}");
    }
}

/// Whether a field with the original bytes may follow it.
fn has_companion(field: Field) -> bool {
    matches!(field.kind(), Kind::Name | Kind::Message | Kind::Statement | Kind::CharsetName)
}

fn number(minimum: u64, maximum: u64) -> Value {
    json!({"type": "integer", "minimum": minimum, "maximum": maximum})
}

/// The permitted values of a field.
fn constraint(field: Field) -> Value {
    let words = |words: &[&str]| json!({ "enum": words });
    match (field.kind(), field) {
        // The number of a line.
        (Kind::Seq, _) | (Kind::Number, Field::run) => number(1, u64::MAX),
        (Kind::Number, _) => number(0, u64::MAX),
        (Kind::Port, _) => number(0, u64::from(u16::MAX)),
        (Kind::Errno, _) => number(1, u64::from(u32::MAX)),
        (Kind::Instant | Kind::Time, _) => json!({"$ref": "#/$defs/time"}),
        (Kind::Event, _) => words(&EventKind::ALL.map(EventKind::name)),
        (Kind::Outcome, _) => words(&Outcome::ALL.map(Outcome::name)),
        (Kind::Word, Field::class) => words(&CLASSES),
        (Kind::Word, Field::action) => words(&ACTIONS),
        (Kind::Word, _) => panic!("{field:?}: its words are not known here"),
        (Kind::Flag, _) => json!({"const": true}),
        (Kind::Name | Kind::Message | Kind::Statement | Kind::CharsetName, _) => {
            json!({"type": "string"})
        }
        (Kind::Digest, _) => json!({"type": "string", "pattern": "^[0-9]+:[0-9a-f]{32}$"}),
        (Kind::Tables, _) => {
            json!({"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/table"}})
        }
        (Kind::Attributes, _) => {
            json!({"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/attribute"}})
        }
        (Kind::Params, _) => {
            json!({"type": "array", "items": {"type": ["string", "number", "null", "object"]}})
        }
    }
}

/// Adds a field and its constraint.
fn add(object: &mut Value, name: &str, what: &str, mut constraint: Value, has_companion: bool) {
    constraint["description"] = what.into();
    object["properties"][name] = constraint;
    if has_companion {
        let companion = format!("{name}_b64");
        object["properties"][&companion] = json!({"$ref": "#/$defs/original"});
        object["dependentRequired"][&companion] = json!([name]);
    }
}

/// An object of texts.
fn of_texts(required: &[&str], texts: &[(&str, &str)]) -> Value {
    let mut object = json!({"type": "object", "required": required});
    for (name, what) in texts {
        add(&mut object, name, what, json!({"type": "string"}), true);
    }
    object
}

fn schema() -> Value {
    let mut table = of_texts(
        &["access"],
        &[
            ("db", "database"),
            ("table", "table"),
            ("new_db", "new database of a `rename`"),
            ("new_table", "new name of a `rename`"),
        ],
    );
    let accesses = json!({"enum": TableAccess::ALL.map(TableAccess::name)});
    add(&mut table, "access", "how it was used", accesses, false);
    let attribute = of_texts(
        &["key", "value"],
        &[("key", "its name"), ("value", "its value; a number in decimal digits")],
    );
    let time =
        "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}[+-][0-9]{2}:[0-9]{2}$";
    let mut line = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of Tachograph's audit log, version 1",
        "description": "The normative text is docs/specs/record.md. Fields that are not here may be \
            added by a later release; readers ignore those they do not know.",
        "type": "object",
        "required": ["v", "seq", "ts", "event"],
        "$defs": {
            "time": {
                "description": "RFC 3339 with microseconds and a numeric offset",
                "type": "string",
                "pattern": time,
            },
            "original": {
                "description": "the original bytes of the field before, in base64",
                "type": "string",
                "contentEncoding": "base64",
                "minLength": 4,
                "pattern": "^[A-Za-z0-9+/]+={0,2}$",
            },
            "table": table,
            "attribute": attribute,
        },
    });
    add(&mut line, "v", "version of this format", json!({"const": 1}), false);
    for &field in Field::ALL {
        add(&mut line, field.name(), field.what(), constraint(field), has_companion(field));
    }
    line
}

#[test]
fn the_schema_has_the_fields() {
    let schema = schema();
    let text = serde_json::to_string_pretty(&schema).expect("JSON");
    let found: Value = serde_json::from_str(&found(SCHEMA, &format!("{text}\n"))).expect("JSON");
    // In any order of the file's fields.
    assert_eq!(found, schema, "{HINT}");
}
