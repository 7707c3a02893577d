//! Whose session it is: what may have changed unseen is not claimed.

use super::*;

impl Scene {
    /// The next command that is certain, after a gap; returns the user of its record.
    fn user_after(&mut self) -> String {
        // The server has the last word before it.
        self.server(9, OK).client(0, b"\x03DO 1").server(1, OK);
        let notes = self.take();
        assert!(notes.iter().any(|note| note.starts_with("Query [] DO 1")), "{notes:?}");
        String::from_utf8_lossy(&self.session.who.user).into_owned()
    }
}

#[test]
fn after_missing_bytes_of_the_client_the_user_is_unknown() {
    // Between two packets: a change of the user may have been there.
    let mut scene = Scene::logged_in(0);
    scene.gap(Side::Client, 30);
    assert_eq!(scene.user_after(), "");
    assert!(scene.session.who.is_partial);
    // Within the header of one.
    let mut scene = Scene::logged_in(0);
    scene.bytes(Side::Client, b"\x09\0\0").gap(Side::Client, 30);
    assert_eq!(scene.user_after(), "");
    // It is known again.
    scene.client(0, b"\x11other\0\0\0\x21\0").server(1, OK);
    assert_eq!(scene.take(), ["change other 0 partial"]);
    assert_eq!(scene.session.who.user, b"other");
}

#[test]
fn bytes_that_were_captured_but_not_read_are_missing_too() {
    let mut scene = Scene::logged_in(0);
    scene.gap(Side::Server, 11);
    assert_eq!(scene.session.who.user, b"me");
    // The server had not the last word before it: it is skipped.
    scene.client(0, b"\x11other\0\0\0\x21\0").server(1, OK);
    assert_eq!(scene.user_after(), "");
    // A command that its answer does not confirm.
    let mut scene = Scene::logged_in(0);
    scene.gap(Side::Server, 11).server(1, OK);
    scene.client(0, b"\x11other\0\0\0\x21\0").server(5, OK);
    assert_eq!(scene.user_after(), "");
    // What is not of the protocol: the packets before it may have been read wrongly.
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x03A").server(9, b"x");
    assert_eq!(scene.user_after(), "");
}

#[test]
fn missing_bytes_of_the_server_alone_change_no_user() {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x03A").gap(Side::Server, 11);
    assert_eq!(scene.user_after(), "me");
    // Unless the client has sent a part of a packet, or a change without an answer.
    let mut scene = Scene::logged_in(0);
    scene.bytes(Side::Client, b"\x09\0\0\0\x03SEL").gap(Side::Server, 11);
    assert_eq!(scene.session.who.user, b"");
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x11other\0\0\0\x21\0").gap(Side::Server, 11);
    assert_eq!(scene.session.who.user, b"");
    // The text of a statement is no change of the user.
    let mut scene = Scene::logged_in(0);
    let command = packet(0, b"\x03SELECT 1 + 1 + 1");
    scene.bytes(Side::Client, &command[..10]).gap(Side::Client, 5);
    scene.bytes(Side::Client, &command[15..]).server(1, OK);
    assert_eq!(scene.session.who.user, b"me");
    assert!(!scene.session.who.is_partial);
}

#[test]
fn a_change_that_was_not_captured_whole_names_no_user() {
    let change = packet(0, b"\x11other\0\0shop\0\x21\0");
    let damaged = |answer: &[u8]| {
        let mut scene = Scene::logged_in(0);
        scene.client(0, b"\x02bank").server(1, OK);
        scene.take();
        scene.bytes(Side::Client, &change[..6]).gap(Side::Client, 5);
        scene.bytes(Side::Client, &change[11..]).server(1, answer);
        let Identity { user, db, .. } = scene.session.who.clone();
        let name = |bytes| String::from_utf8(bytes).unwrap();
        (scene.take(), name(user), name(db))
    };
    let (notes, user, db) = damaged(OK);
    assert_eq!(notes, ["lost tcp_gap 5", "change  0 partial"]);
    assert_eq!((&user[..], &db[..]), ("", ""));
    // The server refuses it: it is the user of before.
    let (notes, user, db) = damaged(DENIED);
    assert_eq!(notes, ["lost tcp_gap 5", "change  1045 partial"]);
    assert_eq!((&user[..], &db[..]), ("me", "bank"));
}

#[test]
fn no_command_passes_as_an_answer_of_a_login() {
    // A client that does not wait: the server need not ask for the second packet.
    let mut scene = Scene::logged_in(0);
    let both = [packet(0, b"\x11other\0\0\0\x21\0"), packet(0, b"\x03DROP")].concat();
    scene.bytes(Side::Client, &both);
    // The first packet with its header, and the second one.
    assert_eq!(scene.take(), ["lost protocol 20 partial"]);
    // The byte that says whether the login continues is missing.
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x11other\0\0\0\x21\0");
    scene.bytes(Side::Server, &packet(1, OK)[..4]).gap(Side::Server, 1);
    scene.bytes(Side::Server, &packet(1, OK)[5..]);
    assert_eq!(scene.session.who.user, b"");
    assert!(scene.take().iter().all(|note| note.starts_with("lost protocol")));
}
