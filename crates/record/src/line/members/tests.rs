use super::*;
use crate::Line;
use crate::line::LineValue;
use proptest::prelude::*;

const LINES: [&str; 5] = [
    r#"{"v":1,"seq":5,"ts":"2026-11-27T07:47:06.219731+00:00","event":"statement","outcome":"ok","run":1,"conn":5,"conn_seq":4,"query_id":19,"user":"root","priv_user":"root","host":"localhost","command":"Query","sql_command":"select","sql":"SELECT @@GLOBAL.datadir","sql_charset":"utf8mb4","digest":"1:07ebe4bb31d551fbcd032916f6eda861","rows_sent":1,"rows_examined":0,"query_time_us":4056,"lock_time_us":0}"#,
    r#"{"v":1,"seq":6,"ts":"2026-11-27T08:47:06.219731+01:00","event":"statement","outcome":"error","user":"a\"\\b\u001f","user_b64":"YSI=","port":65535,"errno":1064,"sql":"é\n","sql_b64":"6Q==","sql_redacted":true,"tables":[{"access":"read","db":"sh}op","table":"t\"]"},{"access":"write","db":"b","table":"u"}],"later":{"a":[1,{"b":"}"}]},"params":[1,"x",null]}"#,
    r#"{"v":1,"seq":7,"ts":"2026-11-27T07:47:06.219731+00:00","event":"config","run":1,"variable":"x","old_value":"","new_value":"OFF"}"#,
    r#"{"v":1,"ts":"2026-11-27T07:47:06Z","event":"stop"}"#,
    r#"{"v":1,"seq":18446744073709551,"ts":"1969-11-27T07:47:06.219731+00:00","event":"notice","attributes":[{"key":"k","value":"v"}]}"#,
];

fn reader() -> MemberReader {
    MemberReader::new(Field::ALL.iter().copied().collect())
}

/// Compares with the complete parser.
fn check(line: &[u8], members: &Members) {
    let parsed = Line::parse(line).expect("accepted by the complete parser");
    for field in Field::ALL.iter().copied() {
        let text = String::from_utf8_lossy(line);
        match parsed.value(field) {
            LineValue::Number(number) => {
                assert_eq!(members.number(field).unwrap_or(0), number, "{field:?} {text}");
            }
            LineValue::Time(us) => assert_eq!(members.ts_us(), us, "{text}"),
            LineValue::Text(value) => assert_eq!(members.text(field), value, "{field:?} {text}"),
            LineValue::True => assert_eq!(members.json(field), Some("true"), "{text}"),
            LineValue::Tables(tables) => {
                let names = |tables: &[Touched]| {
                    let names = tables.iter().map(|t| (t.db.to_string(), t.table.to_string()));
                    names.collect::<Vec<_>>()
                };
                assert_eq!(names(&members.tables().unwrap()), names(tables), "{text}");
            }
            LineValue::Attributes(_) => assert!(members.json(field).is_some(), "{text}"),
            LineValue::Json(json) => assert_eq!(members.json(field), Some(json), "{text}"),
            LineValue::Missing => {
                let empty = [None, Some(""), Some("0"), Some("[]")];
                assert!(empty.contains(&members.json(field)), "{field:?} {text}");
            }
        }
    }
}

#[test]
fn members_are_those_of_the_complete_parser() {
    let mut reader = reader();
    // Twice: the second reading has other guesses.
    for line in LINES.iter().chain(&LINES) {
        let members = reader.read(line.as_bytes());
        check(line.as_bytes(), &members.unwrap_or_else(|| panic!("refused: {line}")));
    }
}

#[test]
fn what_the_recorder_does_not_write_is_left_to_the_complete_parser() {
    let good = r#"{"v":1,"seq":1,"ts":"2026-11-27T07:47:06Z","event":"stop","user":"x","port":1}"#;
    let is_read = |line: &[u8]| reader().read(line).is_some();
    assert!(is_read(good.as_bytes()));
    for (from, to) in [
        ("\"v\":1,", "\"v\":2,"),
        ("\"v\":1,", "\"v\":1, "),
        ("\"event\":\"stop\",", ""),
        ("\"ts\":\"2026-11-27T07:47:06Z\",", ""),
        ("07:47", "07:61"),
        ("\"x\"", "\"x\",\"user\":\"y\""),
        ("\"x\"", "\"x\",\"seq\":1"),
        ("\"x\"", "\"x\",\"host_b64\":\"y\""),
        ("\"x\"", "\"x\",\"user_b64\":\"y\",\"user_b64\":\"y\""),
        ("\"x\"", "\"\\x\""),
        ("\"x\"", "\"\\u00e9\""),
        ("\"x\"", "\"\t\""),
        ("\"x\"", "1"),
        ("\"x\"", "null"),
        ("\"port\":1", "\"port\":01"),
        ("\"port\":1", "\"port\":65536"),
        ("\"port\":1", "\"port\":1.5"),
        ("\"port\":1", "\"port\":\"1\""),
        ("\"port\":1}", "\"port\":1"),
        ("\"port\":1}", "\"port\":1}}"),
        ("\"port\":1}", "\"port\":1,}"),
        ("\"seq\":1", "\"seq\":18446744073709551616"),
    ] {
        let line = good.replacen(from, to, 1);
        assert_ne!(line, good);
        assert!(!is_read(line.as_bytes()), "{line}");
    }
    assert!(!is_read(b""));
    let mut invalid = good.as_bytes().to_vec();
    let at = good.find("x\"").unwrap();
    invalid[at] = 0xFF;
    assert!(!is_read(&invalid));
}

#[test]
fn only_wanted_members_are_kept() {
    let mut reader = MemberReader::new([Field::user].into_iter().collect());
    let members = reader.read(LINES[0].as_bytes()).unwrap();
    assert_eq!((members.text(Field::user), members.json(Field::host)), ("root".into(), None));
    // Nothing is left of the line before.
    let members = reader.read(LINES[2].as_bytes()).unwrap();
    assert_eq!(members.json(Field::user), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn a_damaged_line_is_not_accepted_unless_it_is_valid(
        line in prop::sample::select(LINES.to_vec()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..4),
    ) {
        let mut bytes = line.as_bytes().to_vec();
        for (place, byte, kind) in edits {
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, byte),
                _ => bytes[at] = b"\"\\,:{}[]01"[usize::from(byte) % 10],
            }
        }
        // Arrays are checked when they are asked for.
        let has_array = bytes.contains(&b'[') || bytes.windows(7).any(|part| part == b"\"later\"");
        let mut reader = reader();
        if let Some(members) = reader.read(&bytes).filter(|_| !has_array) {
            check(&bytes, &members);
        }
    }
}
