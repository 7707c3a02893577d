//! Open Cybersecurity Schema Framework, version 1.5.0.
//!
//! Statements are Datastore Activity (6005), sessions Authentication (3002), the recorder's own
//! lines Application Lifecycle (6002) and, for lost records, for which there is no class, Base
//! Event (0). Fields without an attribute in the schema are in `unmapped`, under our own names.
//! Source: the published schema 1.5.0 (`ocsf/ocsf-schema`); a test checks every line against it.

use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Field, Outcome, Record};

use crate::Formatter;
use crate::escape::{Json, name};
use crate::json::{Object, object};
use crate::place::Place;
use crate::words::{PRODUCT, VERSION, end_us, has_sentence, number, sentence};

/// The version of the schema.
const SCHEMA: &str = "1.5.0";

/// A class and its activity.
struct Class {
    category: u64,
    class: u64,
    activity: u64,
    /// The schema's caption of the activity; a description if that is `Other`.
    activity_name: &'static str,
}

const OTHER: u64 = 99;

fn class(record: &Record, event: EventKind) -> Class {
    let (class, (activity, activity_name)) = match event {
        EventKind::Connect | EventKind::ConnectFailed => (3002, (1, "Logon")),
        EventKind::Disconnect => (3002, (2, "Logoff")),
        EventKind::ChangeUser => (3002, (OTHER, "Change User")),
        EventKind::Statement => (6005, activity(record.sql_command)),
        EventKind::Table => (6005, (OTHER, "Table Access")),
        EventKind::Start => (6002, (3, "Start")),
        EventKind::Stop => (6002, (4, "Stop")),
        EventKind::Config => (6002, (OTHER, "Configure")),
        EventKind::Notice => (6002, (OTHER, "Notice")),
        EventKind::Lost => (0, (OTHER, "Lost")),
    };
    Class { category: class / 1000, class, activity, activity_name }
}

/// By the server's own class of the statement, never by its text.
fn activity(sql_command: &[u8]) -> (u64, &'static str) {
    const BEGINNINGS: [(&[u8], (u64, &str)); 13] = [
        (b"select", (4, "Query")),
        (b"insert", (5, "Write")),
        (b"replace", (5, "Write")),
        (b"load", (5, "Write")),
        (b"update", (2, "Update")),
        (b"delete", (7, "Delete")),
        (b"truncate", (7, "Delete")),
        (b"drop_", (7, "Delete")),
        (b"create_", (6, "Create")),
        (b"alter_", (2, "Update")),
        (b"rename_", (2, "Update")),
        (b"show_", (8, "List")),
        (b"ha_read", (1, "Read")),
    ];
    let found = BEGINNINGS.iter().find(|(beginning, _)| sql_command.starts_with(beginning));
    found.map_or((OTHER, "Other"), |(_, activity)| *activity)
}

pub fn write(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let Some(event) = record.event else { return };
    let class = class(record, event);
    object(out, |o| {
        o.number("category_uid", Some(class.category));
        o.number("class_uid", Some(class.class));
        o.number("activity_id", Some(class.activity));
        if class.activity == OTHER && !record.sql_command.is_empty() {
            // The schema requires the source's own name for it.
            o.text("activity_name", record.sql_command);
        } else {
            o.word("activity_name", class.activity_name);
        }
        o.number("type_uid", Some(class.class * 100 + class.activity));
        append_severity(o, record, event);
        append_status(o, record);
        // In these classes the attribute is in ms.
        o.signed("time", record.ts_us.div_euclid(1000));
        if let Some(duration_us) = record.query_time_us {
            o.signed("start_time", record.ts_us.div_euclid(1000));
            o.signed("end_time", end_us(record).div_euclid(1000));
            o.number("duration", Some(duration_us / 1000));
        }
        if has_sentence(event) {
            o.made("message", |out| sentence::<Json>(out, record, clock));
        } else {
            o.text("message", record.error);
        }
        append_metadata(o, record, event, clock);
        match class.class {
            3002 => append_authentication(by, o, record),
            6005 => append_datastore(by, o, record),
            6002 => o.object("app", append_product),
            _ => o.number("count", record.count.filter(|count| *count > 0)),
        }
        // Everything that has no attribute above, and the tables after the first.
        o.object("unmapped", |o| o.extensions(record, place, clock));
    });
    out.push(b'\n');
}

fn append_severity(o: &mut Object, record: &Record, event: EventKind) {
    let (id, word) = match (event, record.outcome) {
        (EventKind::Lost, _) | (_, Some(Outcome::Interrupted)) => (4, "High"),
        (EventKind::ConnectFailed, _) => (3, "Medium"),
        (_, Some(Outcome::Error)) => (2, "Low"),
        _ => (1, "Informational"),
    };
    o.number("severity_id", Some(id));
    o.word("severity", word);
}

fn append_status(o: &mut Object, record: &Record) {
    let (id, word) = match record.outcome {
        Some(Outcome::Ok) => (1, "Success"),
        Some(Outcome::Error | Outcome::Interrupted) => (2, "Failure"),
        Some(Outcome::Running) => (OTHER, "Running"),
        None if record.errno != 0 => (2, "Failure"),
        None => return,
    };
    o.number("status_id", Some(id));
    o.word("status", word);
    if record.errno != 0 {
        o.made("status_code", |out| number(out, record.errno));
    }
    if record.outcome == Some(Outcome::Interrupted) {
        o.word("status_detail", "the server died before the statement ended");
    } else {
        o.text("status_detail", record.error);
    }
}

fn append_product(o: &mut Object) {
    o.word("name", PRODUCT);
    o.word("vendor_name", PRODUCT);
    o.word("version", VERSION);
}

fn append_metadata(o: &mut Object, record: &Record, event: EventKind, clock: &mut TimeFormatter) {
    o.object("metadata", |o| {
        o.word("version", SCHEMA);
        o.object("product", append_product);
        o.word("log_name", "tacho");
        o.word("event_code", event.name());
        o.number("sequence", Some(record.seq));
        o.made("original_time", |out| out.extend_from_slice(clock.format(record.ts_us)));
    });
}

/// Always has a name, even an empty one: the schema requires it.
fn append_user(o: &mut Object, record: &Record) {
    o.object("user", |o| {
        o.made("name", |out| name::<Json>(out, record.user));
        // The account that grants the privileges.
        o.text("uid", record.priv_user);
    });
}

/// The address of the client. For a session over a socket, and without a session, it is the machine
/// of the server.
fn append_source(by: &Formatter, o: &mut Object, record: &Record) {
    o.object("src_endpoint", |o| {
        o.text("hostname", record.host);
        o.text("ip", record.ip);
        o.number("port", record.port.map(u64::from));
        if record.host.is_empty() && record.ip.is_empty() {
            o.made("name", |out| name::<Json>(out, &by.server_host));
        }
    });
}

fn append_destination(by: &Formatter, o: &mut Object) {
    o.object("dst_endpoint", |o| o.text("hostname", &by.server_host));
}

fn append_session(o: &mut Object, record: &Record) {
    if let Some(conn) = record.conn {
        o.object("session", |o| o.made("uid", |out| number(out, conn)));
    }
}

fn append_authentication(by: &Formatter, o: &mut Object, record: &Record) {
    append_user(o, record);
    append_session(o, record);
    append_source(by, o, record);
    append_destination(by, o);
    o.object("service", |o| o.word("name", "mysql"));
}

fn append_datastore(by: &Formatter, o: &mut Object, record: &Record) {
    o.object("actor", |o| {
        append_user(o, record);
        append_session(o, record);
    });
    append_source(by, o, record);
    append_destination(by, o);
    let first = record.tables.first();
    o.number("type_id", Some(if first.is_some() { 3 } else { 1 }));
    o.object("database", |o| {
        let db =
            if record.db.is_empty() { first.map_or(&b""[..], |used| used.db) } else { record.db };
        o.made("name", |out| name::<Json>(out, db));
        o.word("type", "Relational");
        o.number("type_id", Some(1));
    });
    if let Some(used) = first {
        o.object("table", |o| {
            o.text("name", used.table);
            o.made("uid", |out| {
                name::<Json>(out, used.db);
                out.push(b'.');
                name::<Json>(out, used.table);
            });
        });
    }
    if record.sql.is_some() {
        o.object("query_info", |o| {
            o.made("uid", |out| number(out, record.query_id.unwrap_or(record.seq)));
            o.sql("query_string", record);
        });
    }
}

/// The position of each field.
pub const fn place(field: Field) -> Place {
    match field {
        Field::seq => Place::In("metadata.sequence"),
        Field::ts => Place::In("time"),
        Field::event => Place::In("metadata.event_code"),
        Field::outcome => Place::In("status"),
        Field::conn => Place::In("session.uid"),
        Field::user => Place::In("user.name"),
        Field::priv_user => Place::In("user.uid"),
        Field::host => Place::In("src_endpoint.hostname"),
        Field::ip => Place::In("src_endpoint.ip"),
        Field::port => Place::In("src_endpoint.port"),
        Field::errno => Place::In("status_code"),
        Field::error => Place::In("status_detail"),
        Field::sql => Place::In("query_info.query_string"),
        Field::start_ts => Place::In("message"),
        Field::count => Place::In("count"),
        Field::run
        | Field::conn_seq
        | Field::query_id
        | Field::proxy_user
        | Field::os_user
        | Field::db
        | Field::command
        | Field::sql_command
        | Field::sqlstate
        | Field::blocked_by
        | Field::sql_bytes
        | Field::params
        | Field::params_bytes
        | Field::first_byte_us
        | Field::bytes_sent
        | Field::warnings
        | Field::last_insert_id
        | Field::info
        | Field::sql_redacted
        | Field::digest
        | Field::rewrite_rule
        | Field::rewritten_query
        | Field::tables
        | Field::rows_sent
        | Field::rows_examined
        | Field::rows_affected
        | Field::query_time_us
        | Field::lock_time_us
        | Field::running_seq
        | Field::cause
        | Field::server
        | Field::signing_key
        | Field::program
        | Field::tls
        | Field::source
        | Field::server_addr
        | Field::session
        | Field::lost_bytes
        | Field::lost_packets
        | Field::client_version
        | Field::variable
        | Field::old_value
        | Field::new_value
        | Field::class
        | Field::action
        | Field::object
        | Field::producer
        | Field::detail
        | Field::detail_bytes
        | Field::attributes => Place::Extension,
        Field::sql_charset => Place::Nowhere,
    }
}
