//! Records.

use serde_json::{Value, json};
use tacho_ship::protocol::Code;

use super::operation::{JSON, Operation};
use super::schema::{flag, list, named, nullable, number, object, text, word};
use crate::roles::Role;

pub const SEARCH: [Role; 2] = [Role::Viewer, Role::Auditor];

/// A request that asks for records.
pub fn about_records(path: &'static str, id: &str, summary: &str) -> Operation {
    request(("get", path), id, summary).roles(&SEARCH)
}

/// A request about records: its parameters and errors.
fn request(at: (&'static str, &'static str), id: &str, summary: &str) -> Operation {
    let time = "RFC 3339, `now`, or before now: -90s, -15m, -2h, -7d, -1w";
    let servers = json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "only these; can be repeated",
    });
    Operation::new(at, "search", id, summary)
        .query("from", text(&format!("first instant: {time}")))
        .query("to", text("the end, not included; the same forms"))
        .query("server", servers)
        .query("q", text("search: docs/specs/search.md"))
        .error(Code::Forbidden)
        .error(Code::BadRequest)
        .error_word(400, "search")
        .error(Code::Internal)
        .error_word(422, "memory")
        .error_word(504, "timeout")
}

/// A number in a range, with a default.
pub fn bounded(about: &str, default: u64, max: u64) -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": max, "default": default,
        "description": about,
    })
}

pub fn operations() -> Vec<Operation> {
    vec![records(), record(), tail(), sql(), export()]
}

fn records() -> Operation {
    let answer = object([
        ("records", list("", named("Record"))),
        ("next", nullable(text("`cursor` of the next request; null: there are no more"))),
        ("scanned_ms", number("time for the search, ms")),
    ]);
    about_records("/api/v1/records", "records", "Records in order of time")
        .query("order", word("", ["asc", "desc"]))
        .query("limit", bounded("most records", 100, 1_000))
        .query("cursor", text("`next` of the answer before, with the same other parameters"))
        .answer(200, "fewer records than `limit` if they are large", JSON, answer)
}

fn record() -> Operation {
    let neighbours = object([
        ("before", nullable(number("number of the record before"))),
        ("after", nullable(number("number of the record after"))),
    ]);
    let answer = object([
        ("record", named("Record")),
        ("generation", number("generation of the log")),
        ("file", text("its file in the replica")),
        ("offset", number("where its line begins")),
        ("bytes", nullable(text("the line; null: too long, or the role is not auditor"))),
        ("proof", named("Proof")),
        ("neighbours", neighbours),
    ]);
    about_records("/api/v1/records/{server}/{seq}", "record", "One record and its proof")
        .in_path("server", text("name of the server"))
        .in_path("seq", number("number of the record"))
        .query("generation", bounded("of the log; the newest if it is absent", 1, u32::MAX.into()))
        .error(Code::NotFound)
        .answer(200, "the record", JSON, answer)
}

fn tail() -> Operation {
    let about = "Server-sent events: `record` has a record; `lag` comes after each step, at least \
        every 5 s, with `{\"ts\",\"behind_bytes\",\"missed\"}`, where `missed` is the number of \
        records that were left out; `failure` has the `code` of a query that failed, which is tried \
        again. `from` and `to` are ignored.";
    about_records("/api/v1/tail", "tail", "New records as they come").about(about).answer(
        200,
        "events",
        "text/event-stream",
        text(""),
    )
}

fn sql() -> Operation {
    let answer = object([
        ("columns", list("names", text(""))),
        ("types", list("DuckDB's types", text(""))),
        ("rows", list("", list("", json!({})))),
        ("truncated", flag("there are more rows")),
    ]);
    let about = "One SELECT over the view `records`: docs/guide/search.md#sql. `Accept` chooses the \
        format.";
    Operation::new(("post", "/api/v1/sql"), "search", "sql", "Run one SELECT")
        .about(about)
        .roles(&SEARCH)
        .body(JSON, object([("sql", text("the statement"))]))
        .errors(&[Code::Forbidden, Code::BadRequest, Code::TooLarge])
        .error(Code::Internal)
        .error_word(422, "memory")
        .error_word(504, "timeout")
        .answer(200, "at most 100,000 rows and 32 MiB", JSON, answer)
        .answer(200, "at most 100,000 rows and 32 MiB", "text/csv", text(""))
        .answer(200, "at most 100,000 rows and 32 MiB", "application/x-ndjson", text(""))
}

fn export() -> Operation {
    let about = "What the search finds, with the parts of the sealed logs that prove it: \
        docs/specs/evidence.md. `tacho verify` checks it.";
    request(("post", "/api/v1/export"), "export", "An evidence bundle")
        .about(about)
        .roles(&[Role::Auditor])
        .errors(&[Code::NotFound, Code::Unavailable, Code::DiskFull])
        .error_word(422, "too_large")
        .answer(200, "at most 100,000 records and 1 GiB", "application/x-tar", text(""))
}
