//! Short ways to write a schema.

use serde_json::{Map, Value, json};

/// A text.
pub fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

/// A whole number from 0.
pub fn number(about: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": about})
}

/// A number with a fraction.
pub fn fraction(about: &str) -> Value {
    json!({"type": "number", "description": about})
}

/// A truth value.
pub fn flag(about: &str) -> Value {
    json!({"type": "boolean", "description": about})
}

/// A time.
pub fn time(about: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": about})
}

/// One of some words.
pub fn word<'a>(about: &str, words: impl IntoIterator<Item = &'a str>) -> Value {
    let words: Vec<&str> = words.into_iter().collect();
    json!({"type": "string", "enum": words, "description": about})
}

/// The same, or `null`.
pub fn nullable(schema: Value) -> Value {
    json!({"oneOf": [schema, {"type": "null"}]})
}

/// A list.
pub fn list(about: &str, of: Value) -> Value {
    json!({"type": "array", "items": of, "description": about})
}

/// An object whose names are data.
pub fn map(about: &str, of: Value) -> Value {
    json!({"type": "object", "additionalProperties": of, "description": about})
}

/// An object that has all of these fields.
pub fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let required = json!(required);
    let fields: Map<String, Value> =
        fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({"type": "object", "properties": fields, "required": required})
}

/// The same, where others than `required` may be absent.
pub fn object_with<const N: usize>(required: &[&str], fields: [(&str, Value); N]) -> Value {
    let mut schema = object(fields);
    schema["required"] = json!(required);
    schema
}

/// One of [`super::schemas`].
pub fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}
