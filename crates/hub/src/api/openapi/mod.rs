//! `GET /api/v1/openapi.json`: a description of every request, OpenAPI 3.1.
//!
//! It is written here, beside the handlers, and not derived from types: most answers are built from
//! rows of a query and have no type. Codes of errors, roles, fields of facets and fields of records
//! come from the tables of the code. Tests compare the list of requests with the router, the roles
//! with what the handlers permit, and answers of a running hub with the schemas.

mod operation;
mod schema;
mod schemas;
mod searching;
mod shipping;
mod state;
mod statistics;

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};

use crate::accounts::session::COOKIE;
use crate::api::caller::CSRF_HEADER;
use operation::Operation;

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);
static TEXT: LazyLock<String> = LazyLock::new(|| DOCUMENT.to_string());

const ABOUT: &str = "The API of tacho-hub, which keeps, verifies and searches the audit logs of \
    MariaDB and MySQL servers. Requests have a token (`Authorization: Bearer TOKEN`), or the cookie \
    of a session. Those with a cookie that change something also have the header X-Tacho-Csrf with \
    the text that `GET /api/v1/me` answers. Times are RFC 3339 in UTC with microseconds. Readers \
    must ignore fields that they do not know.";

/// The answer.
pub async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str())
}

fn document() -> Value {
    let operations: Vec<Operation> = [
        state::operations(),
        searching::operations(),
        statistics::operations(),
        shipping::operations(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut paths = Map::new();
    for operation in operations {
        let (method, path) = (operation.method, operation.path);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[method] = operation.into_json();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "tacho-hub",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "tags": [
            {"name": "state", "description": "Servers, alerts, sessions"},
            {"name": "search", "description": "Records and statistics"},
            {"name": "shipping", "description": "Receives logs: docs/specs/ship.md"},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas::all(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": COOKIE,
                    "description": format!(
                        "from POST /api/v1/session; requests that change something need \
                         {CSRF_HEADER} as well"
                    ),
                },
            },
        },
    })
}

#[cfg(test)]
mod tests;
