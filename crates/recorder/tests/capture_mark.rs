//! Whether a capture made a record depends on its connection id, not on a string that a client may
//! choose.

mod support;

use serde_json::Value;
use support::{emit, event, place};
use tacho_probe::{Probe, Thread};
use tacho_ring::codec::{
    Bytes, Event, PRESENT_FIGURES, RecordKind, STRING_COMMAND, STRING_PROXY_USER, captured_conn,
};

const STRING: &[u8] = b"\x004711\x00192.0.2.1:3306\0partial\0program\0lib";

fn of(kind: RecordKind, conn: u64) -> Event {
    let mut event = event(kind, conn, 0, b"");
    event.strings[STRING_PROXY_USER] = Bytes::of(STRING);
    event.strings[STRING_COMMAND] = Bytes::of(b"Query");
    Event { text_id: conn, ..event }
}

/// The lines of these records, with the settings of a test.
fn lines(events: &[Event]) -> Vec<Value> {
    let place = place();
    let file = place.arena();
    let mut writer = place.writer(file.arena());
    let (probe, mut thread) = (Probe::new(file.arena(), 1), Thread::default());
    events.iter().for_each(|event| emit(&probe, &mut thread, event));
    assert!(writer.finish());
    let lines = place.lines();
    lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn the_id_and_not_a_string_says_that_it_was_captured() {
    // Both ids have the same place among the known identities.
    let (server, capture) = (7, captured_conn(3, 7));
    let connect = |conn| of(RecordKind::Connect, conn);
    let point = |conn| of(RecordKind::Point, conn);
    let events = [server, capture, server, capture].map(point);
    let lines = lines(&[&[connect(server), connect(capture)], &events[..]].concat());
    let captured = lines.iter().filter(|line| line["source"] == "capture").collect::<Vec<_>>();
    assert_eq!(captured.len(), 3, "{lines:?}");
    for line in captured {
        assert_eq!((&line["port"], &line["conn"]), (&4711.into(), &3.into()), "{line}");
        assert!(line["proxy_user"].is_null(), "{line}");
    }
    let others = lines.iter().filter(|line| line["conn"] == 7).collect::<Vec<_>>();
    assert_eq!(others.len(), 3, "{lines:?}");
    for line in others {
        let proxy_user = line["proxy_user"].as_str().expect("the string as it is");
        assert!(proxy_user.contains("192.0.2.1:3306"), "{line}");
        for field in ["source", "port", "server_addr", "session", "program"] {
            assert!(line[field].is_null(), "{field}: {line}");
        }
    }
}

#[test]
fn losses_of_no_connection_are_those_of_a_capture() {
    let conn = captured_conn(0, 0);
    let lost = of(RecordKind::Lost, conn);
    let lost = Event { present: PRESENT_FIGURES, figures: [0, 1, 5, 0, 0], ..lost };
    let lines = lines(&[lost]);
    assert_eq!((&lines[0]["source"], &lines[0]["lost_packets"]), (&"capture".into(), &5.into()));
    assert!(lines[0]["conn"].is_null(), "{lines:?}");
}
