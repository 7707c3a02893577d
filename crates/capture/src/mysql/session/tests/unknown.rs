//! What the server says about a session is used only if it is still so.

use super::*;
use crate::mysql::session::unknown::{Completed, Facts, Unknown};

/// Executes the statement with this number.
const EXECUTE: &[u8] = b"\x17\x05\0\0\0\0\x01\0\0\0";

impl Scene {
    /// A session that was joined in its middle, with a command that is certain.
    fn joined() -> Scene {
        let mut scene = Scene::new(true);
        scene.server(1, OK).client(0, b"\x03A").server(1, OK);
        scene.take();
        scene
    }

    fn asked(&self) -> Unknown {
        self.session.unknown().expect("something that is not known")
    }

    fn answer(&mut self, asked: &Unknown) -> Completed {
        let facts = Facts {
            conn: 7,
            user: Some(b"me".to_vec()),
            db: Some(b"shop".to_vec()),
            texts: Some(vec![(5, b" DO ?; ".to_vec()), (6, b"CALL p".to_vec())]),
        };
        self.session.complete(asked, &facts, &mut self.notes)
    }

    /// User and database of the next record, and the text of an execution.
    fn shown(&mut self) -> (String, String) {
        self.client(0, EXECUTE);
        let user = String::from_utf8_lossy(&self.session.who.user).into_owned();
        let note = self.take().pop().expect("a record");
        self.server(1, OK).take();
        (user, note)
    }
}

fn shown(user: &str, note: &str) -> (String, String) {
    (user.to_owned(), note.to_owned())
}

#[test]
fn a_session_that_was_joined_is_completed() {
    let mut scene = Scene::joined();
    assert_eq!(scene.shown(), shown("", "Execute [] ? partial"));
    let asked = scene.asked();
    assert_eq!((asked.conn, asked.texts, asked.only_texts), (0, true, false));
    assert_eq!(scene.answer(&asked), Completed::Yes);
    assert_eq!(scene.shown(), shown("me", "Execute [shop] DO ? partial"));
    assert_eq!((scene.session.who.conn, scene.notes.left), (7, 1));
    assert_eq!(scene.session.unknown(), None);
    // A second answer has no news.
    assert_eq!(scene.answer(&asked), Completed::No);
    // What it executes may change the database, so that is asked again.
    scene.client(0, b"\x17\x09\0\0\0\0\x01\0\0\0").server(1, OK);
    assert_eq!(scene.asked().conn, 7);
}

#[test]
fn nothing_is_asked_or_taken_while_something_is_uncertain() {
    // No command is certain yet.
    let mut scene = Scene::new(true);
    assert_eq!(scene.session.unknown(), None);
    scene.server(1, OK).client(0, b"\x03A");
    assert_eq!(scene.session.unknown(), None);
    scene.server(1, OK);
    let asked = scene.asked();
    // A command without an answer, or a part of one.
    scene.client(0, b"\x03USE x");
    assert_eq!(scene.answer(&asked), Completed::Later);
    scene.server(1, DENIED);
    scene.bytes(Side::Client, b"\x03\0");
    assert_eq!(scene.answer(&asked), Completed::Later);
    scene.bytes(Side::Client, b"\0\0\x03DO").server(1, OK);
    // A command that failed has changed nothing.
    assert_eq!(scene.answer(&asked), Completed::Yes);
    assert_eq!(scene.shown(), shown("me", "Execute [shop] DO ? partial"));
}

#[test]
fn a_user_that_has_changed_meanwhile_is_not_taken() {
    let change = b"\x11other\0\0bank\0\x21\0";
    let mut scene = Scene::joined();
    let asked = scene.asked();
    scene.client(0, change).server(1, OK);
    assert_eq!(scene.answer(&asked), Completed::No);
    assert_eq!(scene.shown(), shown("other", "Execute [bank] ? partial"));
    // Refused: the server may have shown the other one meanwhile.
    let mut scene = Scene::joined();
    let asked = scene.asked();
    scene.client(0, change).server(1, DENIED);
    scene.answer(&asked);
    assert_eq!(scene.shown().0, "");
    // Bytes that were not captured.
    let mut scene = Scene::logged_in(0);
    scene.gap(Side::Client, 30).server(9, OK).client(0, b"\x03A").server(1, OK);
    let asked = scene.asked();
    assert_eq!(asked.conn, 7);
    scene.gap(Side::Client, 30);
    assert_eq!(scene.answer(&asked), Completed::No);
    scene.server(9, OK).client(0, b"\x03A").server(1, OK);
    assert_eq!(scene.answer(&asked), Completed::No);
    assert_eq!(scene.session.who.user, b"");
    let asked = scene.asked();
    assert_eq!(scene.answer(&asked), Completed::Yes);
    assert_eq!(scene.session.who.user, b"me");
}

#[test]
fn a_database_that_may_have_changed_meanwhile_is_not_taken() {
    for (statement, db) in [
        (&b"\x03USE bank"[..], "bank"),
        (b"\x02bank", "bank"),
        // Which one it is now is not known.
        (b"\x03DO 1; USE bank", ""),
        (b"\x17\x09\0\0\0\0\x01\0\0\0", ""),
    ] {
        let mut scene = Scene::joined();
        let asked = scene.asked();
        scene.client(0, statement).server(1, OK);
        assert_eq!(scene.answer(&asked), Completed::Yes);
        assert_eq!(scene.session.who.user, b"me");
        assert_eq!(String::from_utf8_lossy(&scene.session.who.db), db, "{statement:?}");
    }
    // Of a session that was captured whole only that is asked.
    let mut scene = Scene::logged_in(0);
    assert_eq!(scene.session.unknown(), None);
    scene.client(0, b"\x03USE a; USE b").server(1, OK);
    let asked = scene.asked();
    assert!(!asked.texts && !asked.only_texts);
    assert_eq!(scene.answer(&asked), Completed::Yes);
    assert_eq!(scene.shown(), shown("me", "Execute [shop] ?"));
}

#[test]
fn texts_are_those_of_the_numbers_at_that_time() {
    // A statement that was captured is newer than the answer.
    let mut scene = Scene::joined();
    let asked = scene.asked();
    scene.client(0, b"\x16SELECT 1").server(1, b"\0\x05\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(scene.answer(&asked), Completed::Yes);
    assert_eq!(scene.shown(), shown("me", "Execute [shop] SELECT 1 partial"));
    // All were closed.
    let mut scene = Scene::joined();
    let asked = scene.asked();
    scene.client(0, b"\x1f").server(1, OK);
    assert_eq!(scene.answer(&asked), Completed::Yes);
    assert_eq!(scene.shown(), shown("me", "Execute [shop] ? partial"));
    // One was prepared whose text was not captured.
    let mut scene = Scene::joined();
    let asked = scene.asked();
    let command = packet(0, b"\x16SELECT 1 + 1");
    scene.bytes(Side::Client, &command[..10]).gap(Side::Client, 3);
    scene.bytes(Side::Client, &command[13..]).server(1, b"\0\x05\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(scene.answer(&asked), Completed::Yes);
    scene.take();
    assert_eq!(scene.shown(), shown("me", "Execute [shop] ? partial"));
    // It is asked again, and this time only for the texts.
    let asked = scene.asked();
    assert!(asked.texts);
}

#[test]
fn an_answer_about_another_connection_is_not_taken() {
    let mut scene = Scene::logged_in(0);
    scene.gap(Side::Client, 30).server(9, OK).client(0, b"\x03A").server(1, OK);
    let asked = scene.asked();
    let facts = Facts { conn: 8, user: Some(b"me".to_vec()), ..Facts::default() };
    assert_eq!(scene.session.complete(&asked, &facts, &mut scene.notes), Completed::No);
    assert_eq!(scene.session.who.user, b"");
}
