//! No client data ends a line, a field or an element.

use proptest::prelude::*;
use quick_xml::Reader;
use quick_xml::events::Event;
use tacho_format::{Format, Formatter};
use tacho_record::OwnedRecord;
use tacho_record::charset::Charset;
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Field, Outcome, Record};

use crate::arbitrary::record;

fn text(format: Format, record: &OwnedRecord) -> String {
    let mut out = Vec::new();
    let mut by = Formatter::new(format, "db,1|=\t\n");
    let mut clock = TimeFormatter::utc();
    by.begin(&mut out, 0, &mut clock);
    record.with(|record| by.write(&mut out, record, &mut clock));
    let (mut tried, mut again) = (Vec::new(), Formatter::new(format, "db,1|=\t\n"));
    again.begin(&mut tried, 0, &mut clock);
    record.with(|record| again.try_write(&mut tried, record, &mut clock)).expect("memory");
    assert_eq!(out, tried);
    by.end(&mut out);
    String::from_utf8(out).expect("UTF-8")
}

fn decoded(bytes: &[u8], charset: &Charset) -> String {
    let mut text = Vec::new();
    let _ = charset.decode(bytes, &mut text);
    String::from_utf8(text).expect("UTF-8")
}

fn sql_text(record: &OwnedRecord) -> String {
    record.with(|record: &Record| {
        let charset = record.text_charset().unwrap_or(Charset::BINARY);
        decoded(record.sql.unwrap_or_default(), charset)
    })
}

/// Whether another record has the same content.
fn is_silent(record: &OwnedRecord) -> bool {
    record.event == Some(EventKind::Statement)
        && record.outcome == Some(Outcome::Ok)
        && record.command == b"Quit"
}

/// Reverses the escapes of the CSV.
fn unescape(field: &str) -> String {
    let mut out = String::new();
    let mut rest = field.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        out.push(match rest.next().expect("an escape is whole") {
            'b' => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'f' => '\u{c}',
            'r' => '\r',
            'x' => {
                let digits: String = rest.by_ref().take(2).collect();
                u8::from_str_radix(&digits, 16).expect("two digits").into()
            }
            other => other,
        });
    }
    out
}

proptest! {
    #[test]
    fn csv(record in record()) {
        let text = text(Format::Csv, &record);
        let is_statement = record.event == Some(EventKind::Statement);
        prop_assert!(text.is_empty() || text.ends_with('\n'));
        let lines: Vec<&str> = text.split_terminator('\n').collect();
        let extra = usize::from(record.event == Some(EventKind::Connect)
            && !record.proxy_user.is_empty() && record.errno == 0);
        let own = usize::from(!is_silent(&record) && record.event != Some(EventKind::Table)) + extra;
        prop_assert_eq!(lines.len(), record.tables.len() + own, "{}", text);
        for line in &lines {
            prop_assert!(!line.bytes().any(|byte| byte < 0x20 || byte == 0x7F), "{:?}", line);
            let mut fields = line.splitn(9, ',');
            prop_assert_eq!(unescape(fields.nth(1).unwrap()), "db,1|=\t\n");
            prop_assert_eq!(unescape(fields.next().unwrap()), decoded(&record.user, Charset::UTF8MB4));
            let numbers = [record.conn, record.query_id].map(|n| n.unwrap_or(0).to_string());
            fields.next();
            prop_assert_eq!([fields.next(), fields.next()], numbers.each_ref().map(|n| Some(&**n)));
            let operation = fields.next().unwrap();
            prop_assert!(operation.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'), "{}", line);
            fields.next();
            let object = fields.next().unwrap();
            let (object, retcode) = object.rsplit_once(',').expect("a retcode");
            prop_assert!(retcode.bytes().all(|byte| byte.is_ascii_digit()), "{}", line);
            if is_statement && operation == "QUERY" {
                let inner = object.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                prop_assert_eq!(unescape(inner.expect("quotes")), sql_text(&record));
            }
        }
    }

    #[test]
    fn csv_full(record in record()) {
        let text = text(Format::CsvFull, &record);
        let (_header, rows) = text.split_once("\r\n").expect("a header");
        let row = rows.strip_suffix("\r\n").expect("a line end");
        let (mut cells, mut is_quoted) = (vec![String::new()], false);
        for character in row.chars() {
            match character {
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => cells.push(String::new()),
                _ => prop_assert!(is_quoted || character.is_ascii_graphic(), "{}", row),
            }
            if character != ',' || is_quoted {
                cells.last_mut().unwrap().push(character);
            }
        }
        prop_assert!(!is_quoted && cells.len() == Field::ALL.len(), "{}", row);
        let cell = |field: Field| {
            let cell = &cells[field as usize];
            let inner = cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"'));
            inner.map(|cell| cell.replace("\"\"", "\""))
        };
        let user = decoded(&record.user, Charset::UTF8MB4);
        prop_assert_eq!(cell(Field::user).unwrap_or_default(), user);
        prop_assert_eq!(cell(Field::sql), record.sql.as_ref().map(|_| sql_text(&record)));
        if let Some(tables) = cell(Field::tables) {
            let tables: serde_json::Value = serde_json::from_str(&tables).expect("JSON");
            prop_assert_eq!(tables.as_array().map(Vec::len), Some(record.tables.len()));
        }
    }

    #[test]
    fn json(record in record()) {
        for format in [Format::PerconaJson, Format::Ocsf, Format::Ecs] {
            let text = text(format, &record);
            let lines = usize::from(!(format == Format::PerconaJson && is_silent(&record)));
            prop_assert_eq!(text.matches('\n').count(), lines);
            prop_assert!(lines == 0 || serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
        }
    }

    #[test]
    fn xml(record in record()) {
        let expected = sql_text(&record);
        for format in [Format::PerconaNew, Format::PerconaOld] {
            let text = text(format, &record);
            prop_assert!(text.chars().all(is_xml), "{:?}", text);
            let mut reader = Reader::from_str(&text);
            reader.config_mut().check_end_names = true;
            let (mut records, mut sql, mut inside) = (0, None, String::new());
            loop {
                match reader.read_event() {
                    Ok(Event::Eof) => break,
                    Ok(Event::Start(tag)) => {
                        inside = String::from_utf8(tag.name().as_ref().to_vec()).unwrap();
                        records += usize::from(inside == "AUDIT_RECORD");
                        if inside == "SQLTEXT" {
                            sql = Some(String::new());
                        }
                    }
                    Ok(Event::Empty(tag)) => {
                        records += 1;
                        for attribute in tag.attributes() {
                            let attribute = attribute.expect("an attribute");
                            if attribute.key.as_ref() == b"SQLTEXT" {
                                let raw = std::str::from_utf8(&attribute.value).unwrap();
                                sql = Some(quick_xml::escape::unescape(raw).expect("entities").into_owned());
                            }
                        }
                    }
                    Ok(Event::Text(part)) if inside == "SQLTEXT" => {
                        sql.as_mut().unwrap().push_str(std::str::from_utf8(&part).unwrap());
                    }
                    Ok(Event::GeneralRef(entity)) if inside == "SQLTEXT" => {
                        let entity = format!("&{};", std::str::from_utf8(&entity).unwrap());
                        let character = quick_xml::escape::unescape(&entity).expect("an entity");
                        sql.as_mut().unwrap().push_str(&character);
                    }
                    Ok(Event::End(_)) => inside.clear(),
                    Ok(_) => {}
                    Err(error) => prop_assert!(false, "{}: {}", error, text),
                }
            }
            prop_assert_eq!(records, usize::from(!is_silent(&record)));
            if let (Some(sql), Some(EventKind::Statement)) = (sql, record.event) {
                let expected: String =
                    expected.chars().map(|c| if is_xml(c) { c } else { '\u{FFFD}' }).collect();
                prop_assert_eq!(sql, expected);
            }
        }
    }

    #[test]
    fn one_line_each(record in record()) {
        for format in [Format::Cef, Format::Leef, Format::Syslog] {
            let text = text(format, &record);
            prop_assert_eq!(text.matches('\n').count(), 1);
            let line = text.trim_end_matches('\n');
            prop_assert!(!line.bytes().any(|byte| byte < 0x20 && byte != b'\t'), "{:?}", line);
        }
        let cef = text(Format::Cef, &record);
        let parts = unescaped(cef.trim_end_matches('\n'), '|', 8);
        prop_assert_eq!(parts.len(), 8, "{}", cef);
        // Outside escapes every `=` belongs to one of our keys, each of which occurs once.
        let pieces = unescaped(&parts[7], '=', usize::MAX);
        let keys = pieces[..pieces.len() - 1].iter().map(|piece| piece.rsplit(' ').next().unwrap());
        let mut keys: Vec<&str> = keys.collect();
        prop_assert!(keys.iter().all(|key| CEF_KEYS.contains(&key.trim_end_matches("Label"))), "{}", cef);
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        prop_assert_eq!(keys.len(), count, "{}", cef);
        let leef = text(Format::Leef, &record);
        for attribute in leef.trim_end_matches('\n').split('\t') {
            let key = attribute.rsplit('|').next().unwrap_or(attribute);
            let key = if attribute.starts_with("LEEF:") { key } else { attribute };
            let name = key.split_once('=').expect("key=value").0;
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphabetic()), "{}", leef);
        }
    }

    #[test]
    fn slow_log(record in record()) {
        let text = text(Format::Slow, &record);
        let headers = ["# Time: ", "# User@Host: ", "# Thread_id: ", "# Query_time: ", "# Rows_affected: "];
        let is_written = !text.is_empty();
        for header in headers {
            let found = text.lines().filter(|line| line.starts_with(header)).count();
            prop_assert_eq!(found, usize::from(is_written), "{}", text);
        }
        // Where its readers split it.
        prop_assert!(!text.contains(";\n#"), "{}", text);
        prop_assert!(!is_written || text.ends_with(";\n"));
    }
}

/// XML 1.0, production 2.
fn is_xml(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

const CEF_KEYS: [&str; 26] = [
    "rt",
    "externalId",
    "dvchost",
    "suser",
    "duser",
    "shost",
    "src",
    "spt",
    "act",
    "outcome",
    "reason",
    "start",
    "end",
    "cs1",
    "cs2",
    "cs3",
    "cs4",
    "cs5",
    "cs6",
    "cn1",
    "cn2",
    "cn3",
    "flexNumber1",
    "flexString1",
    "flexString2",
    "msg",
];

/// At most `count` parts, between separators without a preceding backslash.
fn unescaped(text: &str, separator: char, count: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_escaped = false;
    for character in text.chars() {
        if character == separator && !is_escaped && parts.len() < count {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(character);
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    parts
}
