//! Counts over time and by value.

use serde_json::json;

use super::operation::{JSON, Operation};
use super::schema::{fraction, list, map, nullable, number, object, text, time, word};
use super::schemas::series;
use super::searching::{about_records, bounded};
use crate::api::statistics::{BY, FACETS, MEASURES};

pub fn operations() -> Vec<Operation> {
    vec![histogram(), facets(), top(), overview()]
}

fn histogram() -> Operation {
    let bucket = object([
        ("ts", time("its begin")),
        ("count", number("records")),
        ("errors", number("of them with an error")),
    ]);
    let answer = object([
        ("step_us", number("length of a bucket, µs")),
        ("from", time("begin of the range")),
        ("to", time("its end")),
        ("buckets", list("", bucket)),
        ("total", number("records")),
    ]);
    about_records("/api/v1/histogram", "histogram", "Records over time")
        .query("buckets", bounded("most buckets", 60, 400))
        .answer(200, "counts", JSON, answer)
}

fn facets() -> Operation {
    let names: Vec<&str> = FACETS.iter().map(|facet| facet.name).collect();
    let value = object([
        ("value", json!({"type": ["string", "null"], "description": "as text"})),
        ("count", number("records")),
    ]);
    let answer = object([
        ("total", number("records")),
        ("fields", map("for each field its values", list("the most frequent first", value))),
    ]);
    let fields = format!("names with commas between them, of: {}", names.join(", "));
    let mut fields = text(&fields);
    fields["default"] = "user,db,host,sql_command".into();
    about_records("/api/v1/facets", "facets", "The most frequent values of fields")
        .query("fields", fields)
        .query("limit", bounded("most values of a field", 10, 100))
        .answer(200, "counts", JSON, answer)
}

fn top() -> Operation {
    let row = object([
        ("value", text("the value")),
        ("text", nullable(text("of a digest: the statement without literals"))),
        ("count", number("statements")),
        ("errors", number("of them with an error")),
        ("time_us", number("sum of their times, µs")),
        ("p50_us", number("their time, median, µs")),
        ("p95_us", number("95th percentile, µs")),
        ("p99_us", number("99th percentile, µs")),
        ("rows_sent", number("sum")),
        ("rows_examined", number("sum")),
        ("rows_affected", number("sum")),
        ("share", fraction("part of the measure's total, from 0 to 1")),
        ("spark", list("the measure over time, at most 25 points", number(""))),
    ]);
    let answer = object([
        ("total", number("how many values there are")),
        ("rows", list("those with the most first", row)),
    ]);
    about_records("/api/v1/top", "top", "Rankings of statements")
        .query("by", word("what is ranked", BY.iter().map(|(name, _)| *name)))
        .query("measure", word("by what", MEASURES.iter().map(|(name, _)| *name)))
        .query("limit", bounded("most rows", 20, 200))
        .answer(200, "rows", JSON, answer)
}

fn overview() -> Operation {
    let counts = |about: &str| list(about, number(""));
    let answer = object([
        ("step_us", number("length of a bucket, µs")),
        ("ts", list("begin of each bucket", time(""))),
        ("statements", counts("statements")),
        ("errors", counts("records with an error")),
        ("p50_us", counts("time of statements, median, µs")),
        ("p99_us", counts("99th percentile, µs")),
        ("connections", counts("connections, estimated")),
        ("by_server", series("statements of each server")),
        ("by_kind", series("statements of each kind")),
    ]);
    about_records("/api/v1/overview", "overview", "Series over time")
        .query("buckets", bounded("most buckets", 120, 400))
        .answer(200, "a list has one number for each bucket", JSON, answer)
}
