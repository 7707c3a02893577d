//! What an answer says about its statement, its bytes, and the time to the first of them.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

use super::*;
use crate::mysql::{AnswerBytes, Remarks};

/// Notes how commands end.
#[derive(Default)]
struct Ended(Vec<CommandEnd>);

impl Output for Ended {
    fn emit(&mut self, _: &Identity, _: i64, event: &Event<'_>) {
        if let Event::End(end) | Event::Point(end) = event {
            self.0.push(end.clone());
        }
    }
}

const ROW: &[u8] = b"\x011";
const EOF: &[u8] = b"\xfe\0\0\x02\0";
const QUERY: &[u8] = b"\x03DO 1";

/// Sends segments at these times, and returns how the commands have ended.
fn ended(session: &mut Session, segments: &[(i64, Side, Vec<u8>)]) -> Vec<CommandEnd> {
    let mut ended = Ended::default();
    for (ts_us, side, bytes) in segments {
        session.data(*side, bytes, *ts_us, &mut ended);
    }
    ended.0
}

fn answers(session: &mut Session, segments: &[(i64, Side, Vec<u8>)]) -> Vec<(u64, u64, u64)> {
    let ended = ended(session, segments);
    let of = |end: &CommandEnd| {
        let AnswerBytes { bytes_sent, first_byte_us } = end.answer;
        (bytes_sent, first_byte_us, end.query_time_us)
    };
    ended.iter().map(of).collect()
}

#[test]
fn all_bytes_of_an_answer_are_counted_and_the_first_one_is_timed() {
    let mut session = Scene::logged_in(0).session;
    let rows = [packet(1, b"\x01"), packet(2, b"def"), packet(3, EOF), packet(4, ROW)].concat();
    let segments = [
        (100, Side::Client, packet(0, QUERY)),
        // The first byte alone, then the others.
        (130, Side::Server, rows[..1].to_vec()),
        (150, Side::Server, rows[1..].to_vec()),
        (190, Side::Server, packet(5, EOF)),
        (200, Side::Client, packet(0, b"\x0e")),
        (201, Side::Server, packet(1, OK)),
        // No answer.
        (300, Side::Client, packet(0, b"\x19\x01\0\0\0")),
    ];
    let bytes = rows.len() as u64 + 9;
    assert_eq!(answers(&mut session, &segments), [(bytes, 30, 90), (11, 1, 1), (0, 0, 0)]);
}

#[test]
fn a_row_of_several_packets_has_a_header_in_each() {
    let mut session = Scene::logged_in(caps::DEPRECATE_EOF).session;
    let full = [&b"\xff\xff\xff\x03"[..], &[b'x'; 0xff_ffff]].concat();
    let answer = [
        packet(1, b"\x01"),
        packet(2, b"def"),
        full,
        packet(4, b""),
        packet(5, b"\xfe\0\0\x02\0\x02\0"),
    ]
    .concat();
    let segments = [(1, Side::Client, packet(0, QUERY)), (2, Side::Server, answer.clone())];
    let ended = ended(&mut session, &segments);
    assert_eq!((ended[0].answer.bytes_sent, ended[0].rows_sent), (answer.len() as u64, Some(1)));
    assert_eq!(ended[0].remarks.warnings, 2);
}

#[test]
fn answers_to_commands_that_were_sent_together_are_apart() {
    let mut session = Scene::logged_in(0).session;
    let (first, second) = (packet(1, OK), packet(1, b"\0\x05\x09\x02\0\x01\0\x04text"));
    let segments = [
        (10, Side::Client, [packet(0, QUERY), packet(0, QUERY)].concat()),
        // The second answer begins in the segment in which the first one ends.
        (15, Side::Server, first[..3].to_vec()),
        (20, Side::Server, [&first[3..], &second[..2]].concat()),
        (50, Side::Server, second[2..].to_vec()),
    ];
    let mut ended = ended(&mut session, &segments);
    let counted = |end: &CommandEnd| (end.answer.bytes_sent, end.answer.first_byte_us);
    assert_eq!(ended.iter().map(counted).collect::<Vec<_>>(), [(11, 5), (16, 0)]);
    assert_eq!((ended[0].query_time_us, ended[1].query_time_us), (10, 30));
    let Remarks { last_insert_id, warnings, info } = ended.remove(1).remarks;
    assert_eq!((last_insert_id, warnings, &info[..]), (9, 1, &b"text"[..]));
    assert_eq!(ended.remove(0).remarks, Remarks::default());
}

#[test]
fn compressed_bytes_are_counted_as_they_were_sent() {
    let packed = |seq: u8, plain: &[u8]| {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).expect("zlib");
        let packed = encoder.finish().expect("zlib");
        let (length, plain) = ((packed.len() as u32).to_le_bytes(), plain.len() as u32);
        [&length[..3], &[seq], &plain.to_le_bytes()[..3], &packed].concat()
    };
    let mut session = Scene::logged_in(caps::COMPRESS).session;
    let rows = [packet(1, b"\x01"), packet(2, b"def"), packet(3, EOF), packet(4, &[b'x'; 5000])];
    let answer = [packed(1, &rows.concat()), packed(2, &packet(5, EOF))].concat();
    assert!(answer.len() < 200);
    let segments = [
        (10, Side::Client, packed(0, &packet(0, QUERY))),
        (30, Side::Server, answer[..9].to_vec()),
        (40, Side::Server, answer[9..].to_vec()),
        (50, Side::Client, packed(0, &packet(0, QUERY))),
        (60, Side::Server, packed(1, &packet(1, OK))),
    ];
    let last = packed(1, &packet(1, OK)).len() as u64;
    assert_eq!(answers(&mut session, &segments), [(answer.len() as u64, 20, 30), (last, 10, 10)]);
}

#[test]
fn commands_without_a_text_have_no_remarks() {
    let mut session = Scene::logged_in(0).session;
    let ok = packet(1, b"\0\x05\x09\x02\0\x01\0\x04text");
    let segments = [(1, Side::Client, packet(0, b"\x0e")), (2, Side::Server, ok)];
    let ended = ended(&mut session, &segments);
    assert_eq!((&ended[0].remarks, ended[0].answer.bytes_sent), (&Remarks::default(), 16));
}
