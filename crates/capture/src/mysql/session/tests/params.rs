//! Parameters of prepared statements.

use tacho_ring::params::{Param, Params};

use super::*;

/// Notes the texts of parameters.
#[derive(Default)]
struct Noted(Vec<Vec<u8>>, Vec<u64>);

impl Output for Noted {
    fn emit(&mut self, _: &Identity, _: i64, event: &Event<'_>) {
        if let Event::Params { text, whole_bytes } = event {
            self.0.push(text.to_vec());
            self.1.push(*whole_bytes);
        }
    }
}

/// A statement with the number 5 and two parameters was prepared.
fn prepared() -> Session {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x16DO ?, ?").server(1, b"\0\x05\0\0\0\0\0\x02\0\0\0\0");
    // Two descriptions, and the EOF packet behind them.
    scene.server(2, b"def").server(3, b"def").server(4, b"\xfe\0\0\x02\0");
    assert_eq!(scene.take(), ["Prepare [] DO ?, ?", "end Prepare 0 0"]);
    scene.session
}

fn execute(nulls: u8, types: &[u8], values: &[u8]) -> Vec<u8> {
    let has_types = u8::from(!types.is_empty());
    let head = b"\x17\x05\0\0\0\0\x01\0\0\0";
    packet(0, &[&head[..], &[nulls, has_types], types, values].concat())
}

const TYPES: &[u8] = b"\x01\0\xfe\0";

fn params(session: &mut Session, client: &[u8]) -> Vec<Vec<u8>> {
    let mut noted = Noted::default();
    session.data(Side::Client, client, 1, &mut noted);
    session.data(Side::Server, &packet(1, OK), 2, &mut noted);
    noted.0
}

#[test]
fn an_execution_has_its_parameters() {
    let mut session = prepared();
    let noted = params(&mut session, &execute(0, TYPES, b"\x07\x02ab"));
    assert_eq!(noted.len(), 1);
    assert!(Params::new(&noted[0]).eq([Param::Number(b"7"), Param::Text(b"ab")]));
    // With the types of before.
    let noted = params(&mut session, &execute(2, b"", b"\x08"));
    assert!(Params::new(&noted[0]).eq([Param::Number(b"8"), Param::Null]));
    // Data that was sent before.
    let long = packet(0, b"\x18\x05\0\0\0\x01\0long");
    let noted = params(&mut session, &[long.clone(), execute(0, b"", b"\x09")].concat());
    assert!(Params::new(&noted[0]).eq([Param::Number(b"9"), Param::Text(b"long")]));
    // Not any more.
    let mut noted = Noted::default();
    session.data(Side::Client, &long, 3, &mut noted);
    session.data(Side::Client, &packet(0, b"\x1a\x05\0\0\0"), 3, &mut noted);
    session.data(Side::Server, &packet(1, OK), 3, &mut noted);
    let noted = params(&mut session, &execute(2, b"", b"\x09"));
    assert!(Params::new(&noted[0]).eq([Param::Number(b"9"), Param::Null]));
}

#[test]
fn what_is_not_known_is_not_shown() {
    // Another number of values than the statement has parameters.
    let mut session = prepared();
    assert_eq!(params(&mut session, &execute(0, TYPES, b"\x07\x02abc")), [[0_u8; 0]; 0]);
    // Bytes are missing: neither these values nor the types of the next execution are known.
    let mut session = prepared();
    assert_eq!(params(&mut session, &execute(0, TYPES, b"\x07\x02ab")).len(), 1);
    let mut noted = Noted::default();
    let damaged = execute(0, TYPES, b"\x07\x02ab");
    session.data(Side::Client, &damaged[..10], 3, &mut noted);
    session.gap(Side::Client, 4, 3, &mut noted);
    session.data(Side::Client, &damaged[14..], 3, &mut noted);
    session.data(Side::Server, &packet(1, OK), 3, &mut noted);
    assert_eq!(noted.0, [[0_u8; 0]; 0]);
    assert_eq!(params(&mut session, &execute(0, b"", b"\x07\x02ab")), [[0_u8; 0]; 0]);
    assert_eq!(params(&mut session, &execute(0, TYPES, b"\x07\x02ab")).len(), 1);
    // Not even which statement it was.
    session.data(Side::Client, &damaged[..6], 3, &mut noted);
    session.gap(Side::Client, 8, 3, &mut noted);
    session.data(Side::Client, &damaged[14..], 3, &mut noted);
    session.data(Side::Server, &packet(1, OK), 3, &mut noted);
    assert_eq!(params(&mut session, &execute(0, b"", b"\x07\x02ab")), [[0_u8; 0]; 0]);
    // None are wanted.
    let mut session = prepared();
    session.limits.params_bytes = 0;
    assert_eq!(params(&mut session, &execute(0, TYPES, b"\x07\x02ab")), [[0_u8; 0]; 0]);
}

#[test]
fn the_memory_of_parameters_is_counted() {
    let mut session = prepared();
    let before = session.held_bytes();
    let mut noted = Noted::default();
    for param in 0..100_u16 {
        let data = [&b"\x18\x05\0\0\0"[..], &param.to_le_bytes(), &[b'x'; 5000]].concat();
        session.data(Side::Client, &packet(0, &data), 3, &mut noted);
    }
    // The beginnings of 100 values.
    let held = session.held_bytes() - before;
    assert!((100 << 10..120 << 10).contains(&held), "{held}");
    // Commands that wait have their values.
    let mut session = prepared();
    let before = session.held_bytes();
    let large = execute(0, TYPES, &[&b"\x07\xfd\0\0\x01"[..], &[b'x'; 1 << 16]].concat());
    session.data(Side::Client, &large.repeat(3), 3, &mut noted);
    let held = session.held_bytes() - before;
    assert!((2 << 16..4 << 16).contains(&held), "{held}");
    for _ in 0..3 {
        session.data(Side::Server, &packet(1, OK), 4, &mut noted);
    }
    assert!(session.held_bytes() < before + 1000, "{}", session.held_bytes() - before);
    assert_eq!(noted.1, [1 + (1 << 16); 3]);
}
