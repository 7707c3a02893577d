//! One request.

use serde_json::{Value, json};
use tacho_ship::protocol::Code;

use super::schema::named;
use crate::roles::Role;

pub const JSON: &str = "application/json";

/// A request: method and path, and what OpenAPI says of it.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    about: String,
    json: Value,
}

impl Operation {
    /// `id` names it in clients that are generated.
    pub fn new(
        (method, path): (&'static str, &'static str),
        tag: &str,
        id: &str,
        summary: &str,
    ) -> Self {
        let json = json!({
            "tags": [tag],
            "operationId": id,
            "summary": summary,
            "parameters": [],
            "responses": {},
        });
        Self { method, path, about: String::new(), json }
    }

    /// Details.
    pub fn about(mut self, text: &str) -> Self {
        self.about = text.to_owned();
        self
    }

    /// Needs no token.
    pub fn public(mut self) -> Self {
        self.json["security"] = json!([]);
        self.json["x-roles"] = json!([]);
        self
    }

    /// Needs one of these roles.
    pub fn roles(mut self, roles: &[Role]) -> Self {
        let words: Vec<&str> = roles.iter().map(|role| role.word()).collect();
        self.json["x-roles"] = json!(words);
        // Also what is refused is recorded before it is answered.
        self.errors(&[Code::Token, Code::TooMany, Code::Unavailable])
    }

    fn parameter(mut self, place: &str, name: &str, is_required: bool, schema: &Value) -> Self {
        if let Some(list) = self.json["parameters"].as_array_mut() {
            let description = schema["description"].clone();
            list.push(json!({
                "in": place,
                "name": name,
                "required": is_required,
                "description": description,
                "schema": schema,
            }));
        }
        self
    }

    /// A part of the path.
    pub fn in_path(self, name: &str, schema: Value) -> Self {
        self.parameter("path", name, true, &schema)
    }

    /// A parameter of the query that may be left out.
    pub fn query(self, name: &str, schema: Value) -> Self {
        self.parameter("query", name, false, &schema)
    }

    /// A parameter of the query.
    pub fn required_query(self, name: &str, schema: Value) -> Self {
        self.parameter("query", name, true, &schema)
    }

    /// A field of the head that may be left out.
    pub fn header(self, name: &str, schema: Value) -> Self {
        self.parameter("header", name, false, &schema)
    }

    /// The body.
    pub fn body(mut self, kind: &str, schema: Value) -> Self {
        self.json["requestBody"] = json!({"required": true, "content": {kind: {"schema": schema}}});
        self
    }

    /// An answer. Several kinds of one status are added to each other.
    pub fn answer(mut self, status: u16, about: &str, kind: &str, schema: Value) -> Self {
        let response = &mut self.json["responses"][status.to_string()];
        response["description"] = about.into();
        response["content"][kind] = json!({"schema": schema});
        self
    }

    /// An answer without a body.
    pub fn empty(mut self, status: u16, about: &str) -> Self {
        self.json["responses"][status.to_string()] = json!({"description": about});
        self
    }

    /// An error of a code.
    pub fn error(self, code: Code) -> Self {
        self.error_word(code.status(), code.word())
    }

    /// Errors of codes.
    pub fn errors(self, codes: &[Code]) -> Self {
        codes.iter().fold(self, |operation, code| operation.error(*code))
    }

    /// An error of a code that is none of shipping.
    pub fn error_word(mut self, status: u16, word: &str) -> Self {
        let response = &mut self.json["responses"][status.to_string()];
        let about = match response["description"].as_str() {
            Some(words) if words.contains(&format!("`{word}`")) => words.to_owned(),
            Some(words) => format!("{words}, `{word}`"),
            None => format!("`{word}`"),
        };
        *response = json!({"description": about, "content": {JSON: {"schema": named("Error")}}});
        self
    }

    /// What OpenAPI says of it.
    pub fn into_json(mut self) -> Value {
        let roles: Vec<&str> = self.json["x-roles"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let roles = match roles.as_slice() {
            [] => "Needs no token.".to_owned(),
            [role] => format!("Role: {role}."),
            roles => format!("Roles: {}.", roles.join(", ")),
        };
        self.json["description"] = format!("{} {roles}", self.about).trim_start().into();
        self.json
    }
}
