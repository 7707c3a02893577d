//! Shipping. `docs/specs/ship.md` is the normative text.

use serde_json::{Value, json};
use tacho_ship::protocol::{
    BEFORE_HEADER, BODY_BYTES_MAX, CONTENT_TYPE, Code, DIGEST_HEADER, INSTANCE_HEADER,
};

use super::operation::{JSON, Operation};
use super::schema::{named, number, object, text, word};
use super::schemas::heartbeat;
use crate::roles::Role;

pub fn operations() -> Vec<Operation> {
    vec![state(), put(), begin_generation(), send_heartbeat()]
}

fn shipping(method: &'static str, path: &'static str, id: &str, summary: &str) -> Operation {
    Operation::new((method, path), "shipping", id, summary)
        .roles(&[Role::Agent])
        .in_path("origin", text("name of the server; the token is for this one"))
        .errors(&[Code::BadRequest, Code::Forbidden, Code::TooMany, Code::Internal])
}

fn with_instance(operation: Operation) -> Operation {
    let instance = "32 hexadecimal digits that name the process of the shipper";
    operation.header(INSTANCE_HEADER, text(instance))
}

fn state() -> Operation {
    shipping("get", "/api/v1/origins/{origin}", "originState", "What the hub has of a log").answer(
        200,
        "the current generation",
        JSON,
        named("OriginState"),
    )
}

fn put() -> Operation {
    let path = "/api/v1/origins/{origin}/files/{name}";
    let body: Value = json!({
        "type": "string",
        "format": "binary",
        "description": format!("bytes of the file, at most {BODY_BYTES_MAX}"),
    });
    let stored = object([
        ("generation", number("current generation")),
        ("offset", number("end of what is on the hub's disk")),
    ]);
    let operation = shipping("put", path, "putBytes", "Store bytes of a file at an offset")
        .about("The answer comes after the bytes are on the disk.")
        .in_path("name", text("name of a log file or its sidecar"))
        .required_query("offset", number("of the first byte in the file"))
        .query("generation", number("the current generation; absent: any"))
        .header("content-encoding", word("", ["zstd", "identity"]))
        .header(DIGEST_HEADER, text("SHA-256 of the body as it is sent (RFC 9530)"))
        .header(BEFORE_HEADER, text("SHA-256 of the 4096 bytes before the offset, or fewer"))
        .body(CONTENT_TYPE, body);
    with_instance(operation)
        .errors(&[Code::Digest, Code::BadBody, Code::Offset, Code::Contradiction])
        .errors(&[Code::Generation, Code::Busy, Code::TooLarge, Code::Encoding, Code::DiskFull])
        .answer(200, "stored", JSON, stored)
}

fn begin_generation() -> Operation {
    let path = "/api/v1/origins/{origin}/generations";
    let reasons = ["different", "shorter", "missing"];
    let request = object([
        ("after", number("the current generation")),
        ("reason", word("how the log contradicts it", reasons)),
        ("file", text("the file")),
        ("offset", number("where it does")),
    ]);
    let summary = "Begin a generation, because the log contradicts the copy";
    with_instance(shipping("post", path, "beginGeneration", summary))
        .body(JSON, request)
        .errors(&[Code::Generation, Code::Busy, Code::TooLarge, Code::DiskFull])
        .answer(201, "the new generation", JSON, named("OriginState"))
}

fn send_heartbeat() -> Operation {
    let path = "/api/v1/origins/{origin}/heartbeat";
    let answer = object([
        ("generation", number("current generation")),
        ("time_us", json!({"type": "integer", "description": "clock of the hub"})),
        ("hints", named("Hints")),
    ]);
    with_instance(shipping("post", path, "heartbeat", "Say that the shipper is alive"))
        .body(JSON, heartbeat())
        .error(Code::TooLarge)
        .answer(200, "how to ship", JSON, answer)
}
