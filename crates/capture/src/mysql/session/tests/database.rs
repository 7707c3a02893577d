//! The default database of a session that drops it.

use super::*;
use crate::mysql::session::unknown::Facts;

/// The database before and behind a statement.
fn drops(caps: u64, text: &str, answer: &[u8]) -> (String, bool) {
    let mut scene = Scene::logged_in(caps);
    scene.client(0, b"\x02shop").server(1, OK);
    scene.client(0, &[b"\x03", text.as_bytes()].concat()).server(1, answer);
    let session = &scene.session;
    (String::from_utf8_lossy(&session.who.db).into_owned(), session.known.db)
}

#[test]
fn a_session_that_drops_its_database_has_none() {
    let none = (String::new(), true);
    let kept = ("shop".to_owned(), true);
    assert_eq!(drops(0, "DROP DATABASE shop", OK), none);
    assert_eq!(drops(0, "drop schema if exists `shop`;", OK), none);
    assert_eq!(drops(0, "DROP DATABASE shop", DENIED), kept);
    assert_eq!(drops(0, "DROP DATABASE other", OK), kept);
    assert_eq!(drops(0, "DROP TABLE shop", OK), kept);
    // On some file systems that is the same one: the server says so, or it is not known.
    assert_eq!(drops(0, "DROP DATABASE Shop", OK), (String::new(), false));
    assert_eq!(drops(caps::SESSION_TRACK, "DROP DATABASE Shop", OK), kept);
    let reported = b"\0\0\0\x02\x40\0\0\0\x03\x01\x01\0";
    assert_eq!(drops(caps::SESSION_TRACK, "DROP DATABASE Shop", reported), none);
    assert_eq!(drops(0, "DO 1; DROP DATABASE shop", OK), (String::new(), false));
}

#[test]
fn an_execution_may_drop_it() {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x02shop").server(1, OK);
    scene.client(0, b"\x16DROP DATABASE shop").server(1, b"\0\x01\0\0\0\0\0\0\0\0\0\0");
    scene.client(0, b"\x17\x01\0\0\0\0\x01\0\0\0").server(1, OK);
    assert_eq!((&scene.session.who.db[..], scene.session.known.db), (&b""[..], true));
}

#[test]
fn a_question_before_it_has_no_answer() {
    let mut scene = Scene::logged_in(0);
    scene.session.forget_db();
    let asked = scene.session.unknown().expect("a question");
    scene.client(0, b"\x03DROP DATABASE shop").server(1, OK);
    let db = Some(b"shop".to_vec());
    let facts = Facts { conn: 7, db, ..Facts::default() };
    scene.session.complete(&asked, &facts, &mut scene.notes);
    assert_eq!((&scene.session.who.db[..], scene.session.known.db), (&b""[..], false));
}
