//! Which commands are believed after a gap.

use super::*;

#[test]
fn after_a_gap_the_next_certain_command_continues() {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x03A").gap(Side::Server, 11);
    scene.client(0, b"\x03B").server(1, OK);
    // The server had the last word, and the answer fits.
    scene.client(0, b"\x03C").server(1, OK);
    assert_eq!(
        scene.take(),
        [
            "Query [] A",
            "lost tcp_gap 11",
            // B, and its answer.
            "lost resync 17 partial",
            "Query [] C partial",
            "end Query 0 0 partial"
        ]
    );
}

#[test]
fn data_of_a_statement_is_no_command_while_others_are_answered() {
    let mut scene = Scene::new(true);
    // Pipelined: the server answers A while the client sends a large statement.
    let large = packet(0, &[b"\x03INSERT '".as_slice(), &[b'x'; 400]].concat());
    scene.client(0, b"\x03A").bytes(Side::Client, &large[..100]).server(1, OK);
    scene.client(0, b"\x03FORGED").server(1, OK);
    let notes = scene.take();
    assert_eq!(notes, [""; 0]);
    // The end of a packet is one in several segments, too.
    let mut scene = Scene::new(true);
    scene.bytes(Side::Client, &large[..100]).bytes(Side::Client, &large[100..]).server(1, OK);
    scene.client(0, b"\x03A").server(1, OK);
    assert_eq!(scene.take()[1..], ["Query [] A partial", "end Query 0 0 partial"]);
}

#[test]
fn a_command_whose_answer_does_not_fit_is_not_believed() {
    let mut scene = Scene::new(true);
    scene.server(1, OK).client(0, b"\x03FORGED").server(7, OK);
    scene.client(0, b"\x03A").server(1, OK).client(0, b"\x03B").server(1, OK);
    let notes = scene.take();
    assert!(!notes.iter().any(|note| note.contains("FORGED")), "{notes:?}");
    assert_eq!(notes.last().map(String::as_str), Some("end Query 0 0 partial"));
    // A part of a large statement: the server is silent before it.
    let mut scene = Scene::new(true);
    scene.bytes(Side::Client, b"INSERT INTO t VALUES ('").client(0, b"\x03FORGED").server(1, OK);
    assert_eq!(scene.take(), [""; 0]);
}

#[test]
fn a_session_that_was_joined_finds_out_what_it_can() {
    // With query attributes and without EOF packets.
    let mut scene = Scene::new(true);
    scene.server(1, OK).client(0, b"\x03\0\x01SELECT 1");
    scene.server(1, b"\x01").server(2, b"\x03def\0\0\0\x01a\0").server(3, b"\x011");
    scene.server(4, b"\xfe\0\0\x02\0\0\0");
    scene.session.close(3, &mut scene.notes);
    assert_eq!(
        scene.take(),
        [
            "lost resync 11 partial",
            "Query [] SELECT 1 partial",
            "end Query 1 0 partial",
            "disconnect partial"
        ]
    );
}
