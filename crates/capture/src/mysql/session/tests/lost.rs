//! What is not recorded is declared, with its bytes and its time.

use super::*;

#[test]
fn commands_that_were_sent_are_recorded_without_their_answers() {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x02shop").server(1, OK);
    let commands = [&b"\x03SELECT 1"[..], b"\x0e", b"\x19\x01\0\0\0", b"\x03USE bank", b"\x03B"];
    let commands = commands.map(|command| packet(0, command)).concat();
    scene.take();
    scene.at(5).bytes(Side::Client, &commands).at(9).gap(Side::Server, 7);
    let lost = [
        "Query [shop] SELECT 1",
        "point Close stmt 0 0",
        "Query [shop] USE bank",
        // Whether the database has changed is not known.
        "Query [] B",
    ];
    // The missing bytes, and the ping.
    assert_eq!(scene.take(), [&lost[..], &["lost tcp_gap 12"]].concat());
    // The server's last byte before.
    assert_eq!(scene.notes.since, [1]);

    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x02shop").server(1, OK);
    scene.take();
    scene.at(5).bytes(Side::Client, &commands).bytes(Side::Client, b"\x09\0\0\0\x03SEL").at(9);
    // The ping, and the beginning of a command.
    let closed = [&lost[..], &["lost unanswered 13", "disconnect"]].concat();
    assert_eq!(scene.close(), closed);
    assert_eq!(scene.notes.since, [5]);
}

#[test]
fn an_execution_behind_an_unanswered_prepare_has_no_text() {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x16DO 1").server(1, b"\0\x05\0\0\0\0\0\0\0\0\0\0");
    scene.take();
    let direct = [packet(0, b"\x16DO 2"), packet(0, b"\x17\xff\xff\xff\xff\0\x01\0\0\0")];
    scene.bytes(Side::Client, &direct.concat());
    assert_eq!(scene.close(), ["Prepare [] DO 2", "Execute [] ?", "disconnect"]);
}

#[test]
fn a_login_and_a_trial_without_an_answer_are_declared() {
    let mut scene = Scene::new(false);
    scene.greet(0).at(3).client(1, &login(0)).at(8);
    assert_eq!(scene.close(), ["lost unanswered 0"]);
    assert_eq!((&scene.notes.since[..], scene.notes.left), (&[3][..], 1));
    let mut scene = Scene::new(true);
    scene.server(1, OK).at(4).client(0, b"\x03A").at(9);
    // The OK packet, too.
    assert_eq!(scene.close(), ["lost resync 17 partial", "disconnect partial"]);
    assert_eq!(scene.notes.since, [1]);
}

#[test]
fn commands_of_a_trial_are_declared_with_what_was_skipped() {
    // Nothing answers these, so nothing shows that they are commands.
    let mut scene = Scene::new(true);
    scene.server(1, OK).client(0, b"\x19\x01\0\0\0").client(0, b"\x01");
    assert_eq!(scene.close(), ["lost resync 25 partial", "disconnect partial"]);
    // A gap within a text that is not believed yet.
    let mut scene = Scene::new(true);
    let long = packet(0, &[b"\x03SELECT '".as_slice(), &[b'x'; 90]].concat());
    scene.server(1, OK).bytes(Side::Client, &long[..80]).gap(Side::Client, 5);
    assert_eq!(scene.take(), [""; 0]);
    scene.bytes(Side::Client, &long[85..]).server(1, OK);
    let notes = ["lost resync 16 partial", "Query [] ? partial", "end Query 0 0 partial"];
    assert_eq!(scene.take(), notes);
}

#[test]
fn damaged_compressed_packets_are_counted() {
    let mut scene = Scene::logged_in(caps::COMPRESS);
    let junk = b"\x06\0\0\0\x09\0\0damage";
    scene.at(4).bytes(Side::Client, &junk[..9]).at(6);
    // With what follows in the same segment.
    scene.bytes(Side::Client, &[&junk[9..], b"more"].concat());
    assert_eq!(scene.take(), ["lost protocol 13"]);
    assert_eq!(scene.notes.since, [4]);
    assert_eq!(scene.close(), ["lost resync 4 partial", "disconnect partial"]);
    // Of a packet that never ends.
    let mut scene = Scene::logged_in(caps::COMPRESS);
    scene.bytes(Side::Client, &junk[..9]);
    assert_eq!(scene.close(), ["lost unanswered 9", "disconnect"]);
}

#[test]
fn a_stream_ends_with_its_connection() {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x12\x04\0\0\0\0\0\x01\0\0\0").server(1, b"\0event");
    assert_eq!(scene.close(), ["point Binlog Dump 0 0", "disconnect"]);
}
