//! Schemas with a name.

use serde_json::{Map, Value, json};
use tacho_ship::protocol::{Code, PROBLEMS_MAX};

use super::schema::{
    flag, fraction, list, map, named, nullable, number, object, object_with, text, time, word,
};
use crate::roles::Role;

/// The specification of a line, with all fields.
const RECORD: &str = include_str!("../../../../../docs/specs/record.schema.json");

/// Codes of errors besides those of shipping.
const CODES: [&str; 3] = ["search", "memory", "timeout"];

pub fn all() -> Map<String, Value> {
    let mut all = Map::new();
    for (name, schema) in [
        ("Error", error()),
        ("Server", server()),
        ("Activity", activity()),
        ("Storage", storage()),
        ("Problem", problem()),
        ("Alert", alert()),
        ("Delivery", delivery()),
        ("Me", me()),
        ("Proof", proof()),
        ("OriginState", origin_state()),
        ("Hints", hints()),
    ] {
        all.insert(name.to_owned(), schema);
    }
    records(&mut all);
    all
}

/// A record is its line, except that `server` is the name of the server at the hub.
fn records(all: &mut Map<String, Value>) {
    // Compiled in, and read by the tests of `crates/record`: it is JSON.
    let text = RECORD.replace("#/$defs/", "#/components/schemas/Line.");
    let mut line: Value = serde_json::from_str(&text).unwrap_or_default();
    if let Some(definitions) = line["$defs"].as_object_mut() {
        for (name, schema) in std::mem::take(definitions) {
            all.insert(format!("Line.{name}"), schema);
        }
    }
    let mut fields = line["properties"].as_object().cloned().unwrap_or_default();
    for name in ["server", "server_b64"] {
        if let Some(schema) = fields.remove(name) {
            fields.insert(name.replace("server", "server_version"), schema);
        }
    }
    fields.insert("server".to_owned(), super::schema::text("name of the server at the hub"));
    let raw = "the text of a line that is not a record; the object has no other field of a record";
    fields.insert("raw".to_owned(), super::schema::text(raw));
    let about = "A record: its line in the log (docs/specs/record.md), and `server`. Callers without \
        the role auditor see the text of the digest in `sql`, and no field that can have literals.";
    let record = json!({
        "type": "object", "description": about, "properties": fields, "required": ["server"],
    });
    all.insert("Record".to_owned(), record);
}

fn error() -> Value {
    let words = Code::ALL.iter().map(|code| code.word()).chain(CODES);
    object_with(
        &["code", "message"],
        [
            ("code", word("what is wrong, for programs", words)),
            ("message", text("the same for people")),
            ("offset", number("the hub's offset of the file: `offset`, `contradiction`")),
            ("generation", number("the current generation: status 409")),
            ("position", number("`search`: characters before the place")),
            ("length", number("`search`: characters that are wrong")),
            ("expected", text("`search`: what could be there")),
        ],
    )
}

fn server() -> Value {
    let states = ["ok", "behind", "silent", "stopped", "broken", "new"];
    object([
        ("server", text("name of the server")),
        ("name", text("the same")),
        ("state", word("how its log arrives", states)),
        ("generation", number("current generation of its log")),
        ("records", number("records of the generation")),
        ("landed_seq", nullable(number("last record on the hub's disk"))),
        ("indexed_seq", nullable(number("last record that searches find"))),
        ("last_record_ts", nullable(time("time of the last record on the hub's disk"))),
        ("lag_s", nullable(fraction("age of records that are not here or not in searches, s"))),
        ("verified_to_seq", nullable(number("last record under a good signature"))),
        ("checkpoint_ts", nullable(time("time of that signature"))),
        ("unsealed_bytes", number("bytes of records that no frame covers")),
        ("lost", number("records in which the recorder declares a loss")),
        ("gaps", number("missing files or runs of records")),
        ("seal", nullable(word("state of the seal", ["sealed", "unsealed", "gap", "broken"]))),
        ("seal_message", text("the same for people")),
        ("findings", list("what the verification found, the first ones", text(""))),
        ("shipper", nullable(shipper())),
        ("has_activity", flag("what its database server is doing is known")),
        ("bytes", number("bytes of the generation")),
    ])
}

fn storage() -> Value {
    let needed = "bytes that are needed when as much is removed as arrives; null: never the case";
    let server = object([
        ("server", text("name of the server")),
        ("replica_bytes", number("bytes of its log on the disk, of all generations")),
        ("plain_bytes", number("the same without compression")),
        ("index_bytes", number("its part of the index, by its part of the records")),
        (
            "bytes_per_day",
            number("bytes of log that a day adds on the disk, as of the last 7 days"),
        ),
        ("oldest_record_ts", nullable(time("time of the oldest record"))),
        ("retention_days", number("days for which its log is kept; 0: for ever")),
        ("retention_is_default", flag("it is that with which the hub was started")),
        ("needed_bytes", nullable(number(needed))),
        ("removed_files", number("log files that the hub has removed")),
        (
            "waits_for",
            nullable(word(
                "what keeps the hub from removing a file that is due",
                ["index", "verification", "alert", "clock"],
            )),
        ),
    ]);
    object([
        ("measured_ts", time("when this was measured")),
        ("free_bytes", number("free bytes of the disk")),
        ("reserve_bytes", number("with fewer the hub accepts no logs")),
        ("accepts_logs", flag("the hub accepts logs")),
        ("full_ts", nullable(time("when it will not, at the present rate; null: never"))),
        ("full_in_days", nullable(number("the same in days"))),
        ("needed_bytes", nullable(number(needed))),
        ("index_bytes", number("bytes of the index")),
        ("servers", list("sorted by name", server)),
    ])
}

fn shipper() -> Value {
    object([
        ("host", text("name of its host")),
        ("version", text("its release")),
        ("last_seen", time("when it was heard of")),
        ("behind_bytes", number("bytes that it has not shipped")),
        ("recorder", nullable(flag("a recorder holds the lock of the log directory"))),
        ("free_bytes", nullable(number("free space of the log directory"))),
        ("clock_skew_s", fraction("its clock minus that of the hub, s")),
        ("problems", list("what is wrong on its host", named("Problem"))),
    ])
}

fn activity() -> Value {
    let process = object([
        ("id", number("number of the connection")),
        ("user", text("account")),
        ("host", text("host of the client, and its port")),
        ("db", nullable(text("default database"))),
        ("command", text("`Query`, `Sleep` or another command")),
        ("time_s", number("how long it has been in this state, s")),
        ("state", nullable(text("what it is doing"))),
        ("digest_text", nullable(text("its statement without literals"))),
    ]);
    let status = json!({
        "type": "object",
        "description": "global status variables, and max_connections",
        "additionalProperties": {"type": "string"},
    });
    object([
        ("server", text("name of the server")),
        ("ts", time("when it was asked, by the clock of its host")),
        ("version", text("its version")),
        ("status", status),
        ("processes", list("at most 50 sessions, the longest statements first", process)),
        ("process_count", number("all sessions")),
        ("error", nullable(text("why it could not be asked; the rest is empty then"))),
    ])
}

fn problem() -> Value {
    object_with(
        &["code", "message"],
        [
            ("code", text("`encrypted`, `unreadable`, `contradiction` or another word")),
            ("file", nullable(text("the file"))),
            ("message", text("for people")),
        ],
    )
}

fn alert() -> Value {
    object([
        ("id", number("its number")),
        ("rule", text("its rule: docs/guide/hub.md#alerts")),
        ("severity", word("", ["critical", "high", "medium", "low"])),
        ("state", word("", ["open", "acknowledged", "closed"])),
        ("server", nullable(text("the server; null: the hub"))),
        ("title", text("the rule for people")),
        ("message", text("what happened")),
        ("first_ts", time("when it was raised")),
        ("last_ts", time("when it was raised again, or closed")),
        ("count", number("how often")),
        ("examples", list("details", text(""))),
        ("note", nullable(text("of the acknowledgement"))),
        ("acknowledged_by", nullable(text("who acknowledged it"))),
        ("deliveries", list("the newest messages about it, the last first", named("Delivery"))),
    ])
}

fn delivery() -> Value {
    object([
        ("channel", text("`webhook`, `syslog`, or `mail:` and the recipient")),
        ("alert_state", word("what the message says", ["open", "closed"])),
        ("state", word("", ["pending", "sent", "failed"])),
        ("tries", number("how often it was tried")),
        ("last_error", nullable(text("why the last try failed"))),
        ("created_ts", time("when it was to be sent")),
        ("last_try_ts", nullable(time("when it was tried last"))),
    ])
}

fn me() -> Value {
    let roles = Role::ALL.map(Role::word);
    object([
        ("user", text("name of the account or the token")),
        ("role", text("its roles, with + between them")),
        ("roles", list("its roles", word("", roles))),
        ("servers", nullable(list("the servers that it may see; null: all", text("")))),
        ("csrf", text("for X-Tacho-Csrf; empty for a token")),
    ])
}

fn proof() -> Value {
    let frame = object([
        ("start", number("its first byte in the file")),
        ("end", number("its end")),
        ("lines", number("lines in it")),
        ("last_seq", number("number of its last record")),
        ("sha256", text("hash of its bytes, in hexadecimal")),
        ("recovered", flag("written after a crash")),
    ]);
    let checkpoint = object([
        ("origin", text("of the signature")),
        ("seq", number("last record under it")),
        ("time_s", json!({"type": "integer", "description": "when it was made, s since 1970"})),
        ("offset", number("end of what it covers in the file")),
        ("text", text("the signed text")),
    ]);
    object_with(
        &["state", "message"],
        [
            ("state", word("", ["sealed", "unsealed", "broken"])),
            ("message", text("for people")),
            ("frame", nullable(frame)),
            ("checkpoint", nullable(checkpoint)),
            ("key", nullable(text("the key of the signature"))),
        ],
    )
}

fn origin_state() -> Value {
    let file = object([
        ("name", text("name of the file")),
        ("offset", number("end of what is on the hub's disk")),
    ]);
    object([
        ("protocol", number("version of the protocol")),
        ("origin", text("name of the server")),
        ("generation", number("current generation")),
        ("files", list("its files", file)),
        ("checkpoint", nullable(text("the newest signature, as in the sidecar"))),
        ("hints", named("Hints")),
    ])
}

fn hints() -> Value {
    object([
        ("pause_ms", number("send nothing for so long")),
        ("batch_bytes", number("a body is sent when it has so many bytes")),
        ("batch_ms", number("a body is sent when its oldest byte has waited so long")),
        ("heartbeat_s", number("time between two heartbeats")),
        ("bytes_per_second", number("most bytes per second; 0: unlimited")),
    ])
}

/// A heartbeat, as a shipper sends it.
pub fn heartbeat() -> Value {
    let problems = list("what is wrong on the host", named("Problem"));
    let mut schema = object_with(
        &["time_us", "version", "host", "next_s"],
        [
            ("time_us", json!({"type": "integer", "description": "clock of the host"})),
            ("version", text("release of the shipper")),
            ("host", text("name of the host")),
            ("next_s", number("time to the next one; 0: the shipper stops in the orderly way")),
            ("recorder", nullable(flag("a recorder holds the lock of the log directory"))),
            ("oldest", nullable(text("oldest log file"))),
            ("newest", nullable(text("newest log file"))),
            ("behind_bytes", number("bytes that are not acknowledged")),
            ("unsealed_bytes", number("bytes that wait for their frame")),
            ("free_bytes", nullable(number("free space"))),
            ("problems", problems),
        ],
    );
    schema["properties"]["problems"]["maxItems"] = PROBLEMS_MAX.into();
    schema
}

/// Counts by name over time.
pub fn series(about: &str) -> Value {
    map(about, list("", number("")))
}
