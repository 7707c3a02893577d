//! Golden lines, and arbitrary bytes in every field.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use tacho_record::charset::{Charset, Fidelity, restore};
use tacho_record::json::write_line;
use tacho_record::time::TimeFormatter;
use tacho_record::{
    Attribute, EventKind, Field, Outcome, Record, TableAccess, TableUse, Value as Said,
};

#[path = "fixtures/checks.rs"]
mod checks;

use checks::{VALIDATOR, validate};

#[test]
fn the_schema_refuses_other_objects() {
    let good = r#"{"v":1,"seq":1,"ts":"2026-11-21T01:02:03.123456+01:00","event":"stop"}"#;
    validate(good);
    for (from, to) in [
        ("\"v\":1", "\"v\":2"),
        ("\"seq\":1", "\"seq\":0"),
        ("\"seq\":1,", ""),
        ("+01:00", "Z"),
        ("\"stop\"", "\"party\""),
        ("\"stop\"", "\"stop\",\"conn\":-1"),
        ("\"stop\"", "\"stop\",\"errno\":0"),
        ("\"stop\"", "\"stop\",\"user\":null"),
        ("\"stop\"", "\"stop\",\"user_b64\":\"Yf8=\""),
        ("\"stop\"", "\"stop\",\"user\":\"x\",\"user_b64\":\"*\""),
        ("\"stop\"", "\"stop\",\"tables\":[{\"access\":\"eat\"}]"),
    ] {
        let bad: Value = serde_json::from_str(&good.replacen(from, to, 1)).expect("JSON");
        assert!(!VALIDATOR.is_valid(&bad), "{bad}");
    }
}

fn line(record: &Record) -> String {
    let mut out = Vec::new();
    write_line(&mut out, record, &mut TimeFormatter::named("Europe/Berlin").expect("tzdata"));
    let line = String::from_utf8(out).expect("UTF-8");
    checks::rewritten(&line);
    // Tests also write lines that the recorder never does: without a number or an event.
    if record.seq > 0 && record.event.is_some() {
        validate(&line);
    }
    line
}

/// The same line, written in the simplest way from the table, with strings by `serde_json`.
fn plain_line(record: &Record) -> String {
    let mut clock = TimeFormatter::named("Europe/Berlin").expect("tzdata");
    let mut time = |us| String::from_utf8(clock.format(us).to_vec()).expect("ASCII");
    let quoted = |text: &str| serde_json::to_string(text).expect("a string");
    let text = |key: &str, bytes: &[u8], charset: &Charset| {
        let mut decoded = Vec::new();
        let fidelity = charset.decode(bytes, &mut decoded);
        let decoded = String::from_utf8(decoded).expect("UTF-8");
        let line = format!(",\"{key}\":{}", quoted(&decoded));
        match fidelity {
            Fidelity::Exact => line,
            Fidelity::Inexact => line + &format!(",\"{key}_b64\":\"{}\"", BASE64.encode(bytes)),
        }
    };
    let names = |names: &[(&str, &[u8])]| -> String {
        let is_there = names.iter().filter(|(_, name)| !name.is_empty());
        is_there.map(|(key, name)| text(key, name, Charset::UTF8MB4)).collect()
    };
    let array = |key: &str, elements: Vec<String>| match &elements[..] {
        [] => String::new(),
        elements => format!(",\"{key}\":[{{{}}}]", elements.join("},{")),
    };
    let of_statement = record.text_charset().unwrap_or(Charset::BINARY);
    let mut line = String::from("{\"v\":1");
    for &field in Field::ALL {
        let key = field.name();
        let is_of_notices = field as u32 >= Field::class as u32 && record.attributes.is_empty();
        if is_of_notices && record.event != Some(EventKind::Notice) {
            continue;
        }
        line += &match (field, record.charset, record.value(field)) {
            (Field::sql_charset, Some(known), _) => format!(",\"{key}\":\"{}\"", known.name()),
            (_, _, Said::Number(number)) => {
                number.map_or(String::new(), |number| format!(",\"{key}\":{number}"))
            }
            (_, _, Said::Time(us)) => {
                us.map_or(String::new(), |us| format!(",\"{key}\":\"{}\"", time(us)))
            }
            (_, _, Said::Name(name)) => {
                name.map_or(String::new(), |name| format!(",\"{key}\":\"{name}\""))
            }
            (_, _, Said::Flag(true)) => format!(",\"{key}\":true"),
            (_, _, Said::Flag(false)) => String::new(),
            (_, _, Said::Text(bytes)) => names(&[(key, bytes)]),
            (_, _, Said::Statement(bytes)) => {
                bytes.map_or(String::new(), |bytes| text(key, bytes, of_statement))
            }
            (_, _, Said::Tables(tables)) => {
                let element = |used: &TableUse| {
                    let TableUse { access, db, table, new_db, new_table } = *used;
                    let of_names = [
                        ("db", db),
                        ("table", table),
                        ("new_db", new_db),
                        ("new_table", new_table),
                    ];
                    format!("\"access\":\"{}\"{}", access.name(), names(&of_names))
                };
                array(key, tables.iter().map(element).collect())
            }
            (_, _, Said::Attributes(attributes)) => {
                let element = |attribute: &Attribute| {
                    let [key, value] = [("key", attribute.key), ("value", attribute.value)]
                        .map(|(key, bytes)| text(key, bytes, Charset::UTF8MB4));
                    format!("{}{value}", &key[1..])
                };
                array(key, attributes.iter().map(element).collect())
            }
        };
    }
    line + "}\n"
}

/// 2026-11-21T01:02:03.123456 in Berlin.
const TS_US: i64 = 1_795_219_323_123_456;

#[test]
fn a_statement() {
    let tables = [
        TableUse {
            access: TableAccess::Read,
            db: b"shop",
            table: b"orders",
            new_db: b"",
            new_table: b"",
        },
        TableUse {
            access: TableAccess::Rename,
            db: b"shop",
            table: b"a\xFF",
            new_db: b"old",
            new_table: b"a",
        },
    ];
    let record = Record {
        seq: 7,
        ts_us: TS_US,
        event: Some(EventKind::Statement),
        outcome: Some(Outcome::Error),
        run: Some(4),
        conn: Some(12),
        conn_seq: Some(3),
        query_id: Some(99),
        user: b"anna",
        priv_user: b"anna",
        host: b"app1",
        ip: b"10.0.0.7",
        port: Some(51234),
        db: b"shop",
        command: b"Query",
        sql_command: b"select",
        errno: 1146,
        sqlstate: b"42S02",
        error: b"Table 'shop.x' doesn't exist",
        sql: Some(b"SELECT \"\xE9\"\n\tFROM x -- \\"),
        sql_charset: b"latin1",
        tables: &tables,
        rows_sent: Some(0),
        rows_examined: Some(1),
        rows_affected: Some(2),
        query_time_us: Some(1500),
        lock_time_us: Some(20),
        tls: b"TLSv1.3",
        ..Record::default()
    };
    assert_eq!(
        line(&record),
        concat!(
            r#"{"v":1,"seq":7,"ts":"2026-11-21T01:02:03.123456+01:00","event":"statement","#,
            r#""outcome":"error","run":4,"conn":12,"conn_seq":3,"query_id":99,"user":"anna","#,
            r#""priv_user":"anna","host":"app1","ip":"10.0.0.7","port":51234,"db":"shop","#,
            r#""command":"Query","sql_command":"select","errno":1146,"sqlstate":"42S02","#,
            r#""error":"Table 'shop.x' doesn't exist","#,
            r#""sql":"SELECT \"é\"\n\tFROM x -- \\","sql_charset":"latin1","#,
            r#""tables":[{"access":"read","db":"shop","table":"orders"},"#,
            "{\"access\":\"rename\",\"db\":\"shop\",\"table\":\"a\u{FFFD}\",",
            r#""table_b64":"Yf8=","new_db":"old","new_table":"a"}],"#,
            r#""rows_sent":0,"rows_examined":1,"rows_affected":2,"query_time_us":1500,"#,
            r#""lock_time_us":20,"tls":"TLSv1.3"}"#,
            "\n"
        )
    );
}

#[test]
fn bytes_that_are_not_text() {
    let record = Record {
        seq: 8,
        ts_us: TS_US,
        event: Some(EventKind::Statement),
        outcome: Some(Outcome::Running),
        user: b"\xC3(",
        sql: Some(b"INSERT INTO t VALUES ('\x00\xFE')"),
        sql_bytes: Some(1 << 40),
        sql_redacted: true,
        sql_charset: b"binary",
        ..Record::default()
    };
    assert_eq!(
        line(&record),
        concat!(
            r#"{"v":1,"seq":8,"ts":"2026-11-21T01:02:03.123456+01:00","event":"statement","#,
            "\"outcome\":\"running\",\"user\":\"\u{FFFD}(\",\"user_b64\":\"wyg=\",",
            "\"sql\":\"INSERT INTO t VALUES ('\\u0000\u{FFFD}')\",",
            r#""sql_b64":"SU5TRVJUIElOVE8gdCBWQUxVRVMgKCcA/icp","#,
            r#""sql_bytes":1099511627776,"sql_redacted":true,"sql_charset":"binary"}"#,
            "\n"
        )
    );
}

#[test]
fn lines_of_the_recorder_itself() {
    let base = Record { seq: 1, ts_us: TS_US, ..Record::default() };
    let begin = r#"{"v":1,"seq":1,"ts":"2026-11-21T01:02:03.123456+01:00","#;
    let lost = Record {
        event: Some(EventKind::Lost),
        start_ts_us: Some(TS_US - 1_000_000),
        count: Some(5),
        cause: b"timeout",
        ..base.clone()
    };
    let expected = r#""event":"lost","start_ts":"2026-11-21T01:02:02.123456+01:00","#;
    let rest = r#""count":5,"cause":"timeout"}"#;
    assert_eq!(line(&lost), format!("{begin}{expected}{rest}\n"));

    let start = Record {
        event: Some(EventKind::Start),
        server: b"MariaDB 10.11.19",
        signing_key: b"tachograph/0123456789abcdef+00000000+AQ==",
        program: b"mariadbd",
        ..base.clone()
    };
    let expected = r#""event":"start","server":"MariaDB 10.11.19","#;
    let key = r#""signing_key":"tachograph/0123456789abcdef+00000000+AQ==","#;
    let rest = r#""program":"mariadbd"}"#;
    assert_eq!(line(&start), format!("{begin}{expected}{key}{rest}\n"));

    let config = Record {
        event: Some(EventKind::Config),
        variable: b"tacho_logging",
        old_value: b"ON",
        new_value: b"OFF",
        ..base.clone()
    };
    let expected = r#""event":"config","variable":"tacho_logging","old_value":"ON","#;
    assert_eq!(line(&config), format!("{begin}{expected}\"new_value\":\"OFF\"}}\n"));

    // A completing line has no text at all; an empty text is written.
    let completing = Record { running_seq: Some(4), ..base.clone() };
    assert_eq!(line(&completing), format!("{begin}\"running_seq\":4}}\n"));
    let empty = Record { sql: Some(b""), sql_charset: b"utf8mb4", ..base };
    assert_eq!(line(&empty), format!("{begin}\"sql\":\"\",\"sql_charset\":\"utf8mb4\"}}\n"));
}

#[test]
fn long_originals_are_one_base64_text() {
    for length in 760..780 {
        let sql = vec![0xFF; length];
        let record = Record { sql: Some(&sql), sql_charset: b"ascii", ..Record::default() };
        assert_eq!(original(&fields(&line(&record)), "sql", b"ascii"), Some(sql));
    }
}

/// The fields of an object in their order, duplicates included.
#[derive(Debug)]
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;
            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Reads a line, which must be one physical line of strictly valid JSON.
fn fields(line: &str) -> Vec<(String, Value)> {
    let object = line.strip_suffix('\n').expect("a newline at the end");
    assert!(!object.bytes().any(|byte| byte < 0x20), "a raw control character in {object:?}");
    serde_json::from_str::<Fields>(object).expect("valid JSON").0
}

/// The original bytes of a field; its companion, if any, must follow directly.
fn original(fields: &[(String, Value)], key: &str, charset: &[u8]) -> Option<Vec<u8>> {
    let at = fields.iter().position(|(name, _)| name == key)?;
    let text = fields[at].1.as_str().expect("a string");
    let b64_key = format!("{key}_b64");
    let companions = fields.iter().filter(|(name, _)| *name == b64_key).count();
    let b64 = fields.get(at + 1).filter(|(name, _)| *name == b64_key);
    assert_eq!(companions, usize::from(b64.is_some()), "{b64_key} is not right after {key}");
    let b64 = b64.map(|(_, value)| value.as_str().expect("a string"));
    let charset = Charset::by_name(charset).unwrap_or(Charset::BINARY);
    Some(restore(text, b64, charset).expect("restorable"))
}

/// Relevant kinds of bytes: anything, text, text with much to escape, broken UTF-8.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let troublesome = prop_oneof![
        Just(b"\"".to_vec()),
        Just(b"\\".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r\0\x1B\x7F".to_vec()),
        Just("\u{2028}\u{85}\u{FEFF}".as_bytes().to_vec()),
        Just("\u{FFFD}".as_bytes().to_vec()),
        Just("é表😀".as_bytes().to_vec()),
        Just(b"\xED\xA0\x80".to_vec()),
        Just(b"\x8F\xA1\xA1".to_vec()),
        Just(b"\"}\n{\"v\":1".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..4),
        proptest::collection::vec(0x80_u8.., 0..5),
        proptest::collection::vec(b' '..0x7F, 0..40),
    ];
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        proptest::collection::vec(troublesome, 0..12).prop_map(|parts| parts.concat()),
    ]
}

fn any_charset() -> impl Strategy<Value = Vec<u8>> {
    let known = (0..Charset::all().len()).prop_map(|at| Charset::all()[at].name().into());
    prop_oneof![9 => known, 1 => any_bytes()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_any_field_give_one_valid_line(
        texts in proptest::collection::vec(any_bytes(), 23),
        names in proptest::collection::vec(any_bytes(), 0..12),
        sql in proptest::option::of(any_bytes()),
        rewritten in proptest::option::of(any_bytes()),
        sql_charset in any_charset(),
        numbers in proptest::collection::vec(proptest::option::of(any::<u64>()), 12),
        times in (any::<i64>(), proptest::option::of(any::<i64>())),
    ) {
        let tables: Vec<TableUse> = names
            .chunks_exact(4)
            .map(|names| TableUse {
                access: TableAccess::Alter,
                db: &names[0],
                table: &names[1],
                new_db: &names[2],
                new_table: &names[3],
            })
            .collect();
        let attributes = names.chunks_exact(2).map(|it| Attribute { key: &it[0], value: &it[1] });
        let attributes: Vec<Attribute> = attributes.collect();
        let text_fields = [
            "user", "priv_user", "proxy_user", "os_user", "host", "ip", "db", "command",
            "sql_command", "sqlstate", "error", "cause", "server", "program", "tls", "variable",
            "old_value", "new_value", "signing_key", "blocked_by", "object", "producer", "detail",
        ];
        let record = Record {
            seq: numbers[0].unwrap_or(0),
            ts_us: times.0,
            event: Some(EventKind::Notice),
            outcome: Some(Outcome::Interrupted),
            run: numbers[4],
            conn: numbers[1],
            conn_seq: numbers[2],
            query_id: numbers[3],
            user: &texts[0],
            priv_user: &texts[1],
            proxy_user: &texts[2],
            os_user: &texts[3],
            host: &texts[4],
            ip: &texts[5],
            port: numbers[4].map(|number| number as u16),
            db: &texts[6],
            command: &texts[7],
            sql_command: &texts[8],
            errno: numbers[5].unwrap_or(0) as u32,
            sqlstate: &texts[9],
            error: &texts[10],
            sql: sql.as_deref(),
            sql_bytes: numbers[6],
            sql_redacted: numbers[6].is_some(),
            sql_charset: &sql_charset,
            charset: None,
            digest: if numbers[7].is_some() { b"1:00112233445566778899aabbccddeeff" } else { b"" },
            tables: &tables,
            rows_sent: numbers[7],
            rows_examined: numbers[8],
            rows_affected: numbers[9],
            query_time_us: numbers[10],
            lock_time_us: numbers[11],
            start_ts_us: times.1,
            running_seq: numbers[1],
            count: numbers[2],
            cause: &texts[11],
            server: &texts[12],
            program: &texts[13],
            tls: &texts[14],
            variable: &texts[15],
            old_value: &texts[16],
            new_value: &texts[17],
            signing_key: &texts[18],
            blocked_by: &texts[19],
            rewrite_rule: numbers[3],
            rewritten_query: rewritten.as_deref(),
            class: b"message",
            action: b"user",
            object: &texts[20],
            producer: &texts[21],
            detail: &texts[22],
            detail_bytes: numbers[3],
            attributes: &attributes,
            ..Record::default()
        };
        let events = EventKind::ALL;
        for event in [events[times.0.unsigned_abs() as usize % events.len()], EventKind::Notice] {
            let charset = Charset::by_name(&sql_charset);
            for charset in [None, charset.filter(|set| set.name().as_bytes() == sql_charset)] {
                let record = Record { event: Some(event), charset, ..record.clone() };
                prop_assert_eq!(line(&record), plain_line(&record));
            }
        }
        let line = line(&record);
        let fields = fields(&line);

        // Specified fields, each at most once, in the specified order.
        let order: Vec<&str> = ["v"].into_iter().chain(Field::ALL.iter().map(|f| f.name())).collect();
        let mut next = 0;
        for (key, _) in &fields {
            let key = key.strip_suffix("_b64").unwrap_or(key);
            let at = order.iter().position(|known| *known == key);
            prop_assert!(at.is_some_and(|at| at + 1 >= next), "{key} in {line}");
            next = at.map_or(next, |at| at + 1);
        }
        let mut keys: Vec<&String> = fields.iter().map(|(key, _)| key).collect();
        keys.sort();
        keys.dedup();
        prop_assert_eq!(keys.len(), fields.len(), "a field twice in {}", line);

        for (key, bytes) in text_fields.iter().zip(&texts) {
            let expected = (!bytes.is_empty()).then(|| bytes.clone());
            prop_assert_eq!(original(&fields, key, b"utf8mb4"), expected);
        }
        let expected = (!sql_charset.is_empty()).then(|| sql_charset.clone());
        prop_assert_eq!(original(&fields, "sql_charset", b"utf8mb4"), expected);
        prop_assert_eq!(original(&fields, "sql", &sql_charset), sql.clone());
        let written = original(&fields, "rewritten_query", &sql_charset);
        prop_assert_eq!(written, rewritten.clone());

        let expected = (!record.digest.is_empty()).then(|| record.digest.to_vec());
        prop_assert_eq!(original(&fields, "digest", b"utf8mb4"), expected);

        let written = fields.iter().find(|(key, _)| key == "tables").map(|(_, value)| value);
        let written = written.map_or(&[][..], |value| value.as_array().expect("an array"));
        prop_assert_eq!(written.len(), tables.len());
        for (object, used) in written.iter().zip(&tables) {
            // Reading an object through `Value` sorts its keys: a companion still follows its
            // field, because no other key sorts between the two.
            let object = object.as_object().expect("an object").clone().into_iter();
            let object: Vec<(String, Value)> = object.collect();
            for (key, bytes) in [
                ("db", used.db),
                ("table", used.table),
                ("new_db", used.new_db),
                ("new_table", used.new_table),
            ] {
                let expected = (!bytes.is_empty()).then(|| bytes.to_vec());
                prop_assert_eq!(original(&object, key, b"utf8mb4"), expected);
            }
        }

        let written = fields.iter().find(|(key, _)| key == "attributes").map(|(_, value)| value);
        let written = written.map_or(&[][..], |value| value.as_array().expect("an array"));
        prop_assert_eq!(written.len(), attributes.len());
        for (object, attribute) in written.iter().zip(&attributes) {
            let object = object.as_object().expect("an object").clone().into_iter();
            let object: Vec<(String, Value)> = object.collect();
            for (key, bytes) in [("key", attribute.key), ("value", attribute.value)] {
                prop_assert_eq!(original(&object, key, b"utf8mb4"), Some(bytes.to_vec()));
            }
        }
    }
}
