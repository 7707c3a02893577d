mod answers;
mod database;
mod large;
mod lost;
mod params;
mod reset;
mod search;
mod unknown;
mod user;

use super::*;
use crate::mysql::CommandEnd;

/// Notes events, in a short form.
#[derive(Default)]
struct Notes {
    lines: Vec<String>,
    /// Since when something is lost.
    since: Vec<i64>,
    left: usize,
}

impl Output for Notes {
    fn emit(&mut self, who: &Identity, _: i64, event: &Event<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let end = |end: &CommandEnd| {
            let CommandEnd { command, rows_sent, rows_affected, failure, .. } = end;
            let errno = failure.as_ref().map_or(0, |failure| failure.errno);
            let rows = rows_affected.or(*rows_sent).unwrap_or(0);
            format!("{command} {rows} {errno}")
        };
        let db = text(&who.db);
        let note = match event {
            Event::Login { failure, .. } => {
                format!("login {} {}", text(&who.user), failure.as_ref().map_or(0, |it| it.errno))
            }
            Event::ChangeUser { failure } => {
                format!("change {} {}", text(&who.user), failure.as_ref().map_or(0, |it| it.errno))
            }
            Event::Start { command, text: sql } => {
                format!("{command} [{db}] {}", sql.map_or("?".to_owned(), text))
            }
            Event::End(it) => format!("end {}", end(it)),
            Event::Point(it) => format!("point {}", end(it)),
            Event::Params { text, whole_bytes } => format!("params {} {whole_bytes}", text.len()),
            Event::Disconnect => "disconnect".to_owned(),
            Event::Lost { cause, bytes, .. } => format!("lost {} {bytes}", cause.name()),
        };
        let partial = if who.is_partial { " partial" } else { "" };
        self.lines.push(note + partial);
        if let Event::Lost { since_us, .. } = event {
            self.since.push(*since_us);
        }
    }

    fn leave(&mut self, _: &Identity) {
        self.left += 1;
    }
}

fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..3], &[seq], payload].concat()
}

/// A session, and what it has noted.
struct Scene {
    session: Session,
    notes: Notes,
    ts_us: i64,
}

const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const DENIED: &[u8] = b"\xff\x15\x04#28000Access denied";

impl Scene {
    fn new(is_joined: bool) -> Scene {
        let session = Session::new(Identity::default(), is_joined, Limits::default());
        Scene { session, notes: Notes::default(), ts_us: 1 }
    }

    /// After a login with these capabilities.
    fn logged_in(caps: u64) -> Scene {
        let mut scene = Scene::new(false);
        scene.greet(caps).client(1, &login(caps)).server(2, OK);
        assert_eq!(scene.take(), ["login me 0"]);
        scene
    }

    fn greet(&mut self, caps: u64) -> &mut Scene {
        self.greet_as("8.0.1", caps)
    }

    fn greet_as(&mut self, version: &str, caps: u64) -> &mut Scene {
        let caps = (caps | caps::PROTOCOL_41).to_le_bytes();
        let mut greeting = [b"\x0a", version.as_bytes(), b"\0\x07\0\0\0saltsalt\0"].concat();
        greeting.extend(&caps[..2]);
        greeting.extend([33, 2, 0]);
        greeting.extend(&caps[2..4]);
        greeting.extend([0; 11]);
        self.server(0, &greeting)
    }

    fn bytes(&mut self, side: Side, bytes: &[u8]) -> &mut Scene {
        self.session.data(side, bytes, self.ts_us, &mut self.notes);
        self
    }

    fn client(&mut self, seq: u8, payload: &[u8]) -> &mut Scene {
        self.bytes(Side::Client, &packet(seq, payload))
    }

    fn server(&mut self, seq: u8, payload: &[u8]) -> &mut Scene {
        self.bytes(Side::Server, &packet(seq, payload))
    }

    fn gap(&mut self, side: Side, bytes: u64) -> &mut Scene {
        self.session.gap(side, bytes, self.ts_us, &mut self.notes);
        self
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes.lines)
    }

    fn at(&mut self, ts_us: i64) -> &mut Scene {
        self.ts_us = ts_us;
        self
    }

    fn close(&mut self) -> Vec<String> {
        self.session.close(self.ts_us, &mut self.notes);
        self.take()
    }
}

fn caps_of(answer: &[u8]) -> u64 {
    u32::from_le_bytes([answer[0], answer[1], answer[2], answer[3]]).into()
}

fn login(caps: u64) -> Vec<u8> {
    let caps = ((caps | caps::PROTOCOL_41) as u32).to_le_bytes();
    let mut answer = caps.to_vec();
    answer.extend([0, 0, 0, 1, 45]);
    answer.extend([0; 23]);
    let has_length = caps_of(&answer) & caps::SECURE_CONNECTION != 0;
    answer.extend(if has_length { &b"me\0\x08password"[..] } else { b"me\0password\0" });
    answer
}

#[test]
fn statements_and_other_commands() {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x03 SELECT 1 ;\n").server(1, OK);
    scene.client(0, b"\x0e").server(1, OK);
    scene.client(0, b"\x02other").server(1, OK);
    scene.client(0, b"\x03SELEKT").server(1, DENIED);
    scene.client(0, b"\x01");
    scene.session.close(2, &mut scene.notes);
    assert_eq!(
        scene.take(),
        [
            "Query [] SELECT 1",
            "end Query 0 0",
            "point Ping 0 0",
            "Init DB [] other",
            "end Init DB 0 0",
            "Query [other] SELEKT",
            "end Query 0 1045",
            "point Quit 0 0",
            "disconnect"
        ]
    );
}

#[test]
fn logins_that_fail_switch_or_are_encrypted() {
    let mut scene = Scene::new(false);
    scene.greet(0).client(1, &login(0));
    scene.server(2, b"\xfecaching_sha2_password\0salt").client(3, b"response");
    scene.server(4, b"\x01\x04").client(5, b"password\0").server(6, DENIED);
    scene.client(0, b"\x03SELECT 1");
    scene.session.close(2, &mut scene.notes);
    assert_eq!(scene.take(), ["login me 1045", "lost protocol 13", "disconnect"]);

    let mut scene = Scene::new(false);
    scene.greet(caps::SSL).client(1, &login(caps::SSL)[..32]);
    scene.bytes(Side::Client, b"\x16\x03\x01 hello").bytes(Side::Server, b"\x16\x03\x03 hello");
    scene.session.close(2, &mut scene.notes);
    assert_eq!(scene.take(), ["lost tls 0", "lost tls 18"]);
    assert_eq!(scene.notes.left, 1);

    // TLS begins although the packet has a whole login: the server does not read it.
    let mut scene = Scene::new(false);
    scene.greet(caps::SSL).client(1, &login(caps::SSL));
    scene.bytes(Side::Client, b"\x16\x03\x01 hello").bytes(Side::Server, b"\x16\x03\x03 hello");
    assert_eq!(scene.take(), ["lost tls 0"]);

    let mut scene = Scene::new(false);
    scene.server(0, b"\xff\x10\x04Too many connections");
    assert_eq!(scene.take(), ["login  1040"]);
    // Behind the greeting: the answer took too long.
    let mut scene = Scene::new(false);
    scene.greet(0).server(1, b"\xff\x87\x04#08S01Got timeout");
    assert_eq!(scene.take(), ["login  1159"]);
    assert_eq!(scene.close(), ["disconnect"]);
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let mut scene = Scene::logged_in(0);
    let commands = [packet(0, b"\x03A"), packet(0, b"\x19\x01\0\0\0"), packet(0, b"\x03B")];
    scene.bytes(Side::Client, &commands.concat());
    assert_eq!(scene.take(), ["Query [] A"]);
    scene.bytes(Side::Server, &[packet(1, DENIED), packet(1, OK)].concat());
    assert_eq!(
        scene.take(),
        ["end Query 0 1045", "point Close stmt 0 0", "Query [] B", "end Query 0 0"]
    );
}

#[test]
fn prepared_statements_have_their_text() {
    let mut scene = Scene::logged_in(0);
    let prepared = b"\0\x05\0\0\0\0\0\0\0\0\0\0";
    scene.client(0, b"\x16DO ?").server(1, prepared);
    scene.client(0, b"\x17\x05\0\0\0\0\x01\0\0\0").server(1, OK);
    // MariaDB's clients do not wait for the number.
    let direct = [packet(0, b"\x16DO 2"), packet(0, b"\x17\xff\xff\xff\xff\0\x01\0\0\0")];
    scene.bytes(Side::Client, &direct.concat());
    scene.server(1, b"\0\x06\0\0\0\0\0\0\0\0\0\0").server(1, OK);
    scene.client(0, b"\x19\x05\0\0\0").client(0, b"\x17\x05\0\0\0\0\x01\0\0\0").server(1, DENIED);
    let starts = scene.take();
    let starts = starts.iter().filter(|note| note.contains('[')).collect::<Vec<_>>();
    assert_eq!(
        starts,
        [
            "Prepare [] DO ?",
            "Execute [] DO ?",
            "Prepare [] DO 2",
            "Execute [] DO 2",
            "Execute [] ?"
        ]
    );
}

#[test]
fn an_execution_never_shows_another_statement() {
    let mut scene = Scene::logged_in(0);
    const LAST: &[u8] = b"\x17\xff\xff\xff\xff\0\x01\0\0\0";
    scene.client(0, b"\x16DO 1").server(1, b"\0\x05\0\0\0\0\0\0\0\0\0\0");
    // MariaDB's clients send both at once; the server cannot prepare it, and executes nothing.
    let direct = [packet(0, b"\x16DROP"), packet(0, LAST)].concat();
    scene.bytes(Side::Client, &direct).server(1, DENIED).server(1, DENIED);
    // A text over the limit is not known, but its statement is the last one.
    scene.client(0, b"\x16DO 2").server(1, b"\0\x06\0\0\0\0\0\0\0\0\0\0");
    scene.session.limits.statement_bytes = 20;
    scene.client(0, b"\x16DO 3 /* more than 20 */").server(1, b"\0\x07\0\0\0\0\0\0\0\0\0\0");
    scene.client(0, LAST).server(1, OK);
    // The last one was closed, by either number.
    for close in [&b"\x19\x08\0\0\0"[..], b"\x19\xff\xff\xff\xff"] {
        scene.client(0, b"\x16DO 4").server(1, b"\0\x08\0\0\0\0\0\0\0\0\0\0");
        scene.client(0, close).client(0, LAST).server(1, DENIED);
    }
    // Its number again, without a known text.
    scene.client(0, b"\x16DO 5").server(1, b"\0\x09\0\0\0\0\0\0\0\0\0\0");
    scene.client(0, b"\x16DO 6 /* more than 20 */").server(1, b"\0\x09\0\0\0\0\0\0\0\0\0\0");
    scene.client(0, b"\x17\x09\0\0\0\0\x01\0\0\0").server(1, OK);
    let executions = scene.take().into_iter().filter(|note| note.starts_with("Execute"));
    assert_eq!(executions.collect::<Vec<_>>(), ["Execute [] ?"; 5]);
}

#[test]
fn the_user_and_the_database_are_followed() {
    let mut scene = Scene::logged_in(caps::SECURE_CONNECTION);
    scene.client(0, b"\x11other\0\x04xxxxshop\0\x21\0").server(1, b"\xfeplugin\0salt");
    scene.client(2, b"response").server(3, OK);
    scene.client(0, b"\x03USE bank").server(1, OK);
    scene.client(0, b"\x11guest\0\0\0\x21\0").server(1, DENIED);
    scene.client(0, b"\x03SELECT 1").server(1, OK);
    assert_eq!(
        scene.take(),
        [
            "change other 0",
            "Query [shop] USE bank",
            "end Query 0 0",
            "change guest 1045",
            "Query [bank] SELECT 1",
            "end Query 0 0"
        ]
    );
    assert_eq!(scene.session.who.user, b"other");
}

#[test]
fn what_prepared_statements_change_is_followed() {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x16USE shop").server(1, b"\0\x05\0\0\0\0\0\0\0\0\0\0");
    scene.client(0, b"\x03DO 1").server(1, OK);
    scene.client(0, b"\x17\x05\0\0\0\0\x01\0\0\0").server(1, OK);
    scene.client(0, b"\x03DO 2").server(1, OK);
    // What SQL executes is not known, nor is it what an unknown statement does.
    scene.client(0, b"\x03EXECUTE s").server(1, OK);
    scene.client(0, b"\x03DO 3").server(1, OK).client(0, b"\x03USE shop").server(1, OK);
    scene.client(0, b"\x17\x09\0\0\0\0\x01\0\0\0").server(1, OK);
    scene.client(0, b"\x03DO 4").server(1, OK);
    // The first one was executed.
    scene.client(0, b"\x03USE a; SELEKT").server(1, b"\0\0\0\x0a\0\0\0").server(2, DENIED);
    scene.client(0, b"\x03DO 5").server(1, OK);
    let starts = scene.take().into_iter().filter(|note| note.contains("] DO "));
    let wanted = ["DO 1", "DO 2", "DO 3", "DO 4", "DO 5"];
    let dbs = ["", "shop", "", "", ""];
    let wanted = wanted.iter().zip(dbs).map(|(text, db)| format!("Query [{db}] {text}"));
    assert!(starts.eq(wanted));
}

#[test]
fn a_client_can_end_the_reports_of_the_server() {
    let mut scene = Scene::logged_in(caps::SESSION_TRACK);
    // `USE a`, reported.
    const A: &[u8] = b"\0\0\0\x02\x40\0\0\0\x04\x01\x02\x01a";
    const DO: &[u8] = b"\x03DO 1";
    scene.client(0, b"\x03SELECT 1; USE a").server(1, A).client(0, DO).server(1, OK);
    // Not reported: the server has not done it.
    scene.client(0, b"\x03SELECT 1; USE b").server(1, OK).client(0, DO).server(1, OK);
    // In one packet: the report is not the last change.
    scene.client(0, b"\x03USE a; SET session_track_schema = 0; USE b").server(1, A);
    scene.client(0, DO).server(1, OK);
    // Now what is not understood may have changed it.
    scene.client(0, b"\x03USE b").server(1, OK).client(0, DO).server(1, OK);
    scene.client(0, b"\x03SELECT 1; USE c").server(1, OK).client(0, DO).server(1, OK);
    // A session as at its begin.
    scene.client(0, b"\x1f").server(1, OK).client(0, b"\x03USE a").server(1, A);
    scene.client(0, b"\x03SELECT 1; USE b").server(1, OK).client(0, DO).server(1, OK);
    let dbs = scene.take().into_iter().filter_map(|note| {
        note.strip_suffix("] DO 1").map(|note| note.trim_start_matches("Query [").to_owned())
    });
    assert_eq!(dbs.collect::<Vec<_>>(), ["a", "a", "", "b", "", "a"]);
}

#[test]
fn a_gap_within_a_text_loses_only_the_text() {
    let mut scene = Scene::logged_in(0);
    let command = packet(0, b"\x03SELECT 1 + 1 + 1");
    scene.bytes(Side::Client, &command[..10]).gap(Side::Client, 5);
    scene.bytes(Side::Client, &command[15..]).server(1, OK);
    scene.client(0, b"\x03SELECT 2").server(1, OK);
    assert_eq!(
        scene.take(),
        [
            "lost tcp_gap 5",
            "Query [] ?",
            "end Query 0 0",
            // What the statement has changed is not known.
            "Query [] SELECT 2",
            "end Query 0 0"
        ]
    );
}

#[test]
fn a_statement_over_the_limit_is_declared() {
    let mut scene = Scene::logged_in(0);
    scene.session.limits.statement_bytes = 100;
    let long = [b"\x03", &[b'x'; 200][..]].concat();
    scene.client(0, &long).server(1, OK).client(0, b"\x03A").server(1, OK);
    assert_eq!(
        scene.take(),
        ["lost too_large 201", "Query [] ?", "end Query 0 0", "Query [] A", "end Query 0 0"]
    );
    assert!(scene.session.held_bytes() < 1000);
}

#[test]
fn what_is_not_of_the_protocol_is_declared() {
    let mut scene = Scene::new(false);
    scene.bytes(Side::Server, b"HTTP/1.1 400 Bad Request\r\n\r\n and more than it says");
    scene.bytes(Side::Client, b"GET / HTTP/1.1\r\n\r\n");
    // What the server has sent, too.
    assert_eq!(scene.take(), ["lost protocol 68"]);
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x03A").server(1, b"\x01").server(9, b"x");
    assert_eq!(scene.take(), ["Query [] A", "lost protocol 1"]);
}

#[test]
fn all_memory_of_a_session_is_counted() {
    let mut scene = Scene::new(false);
    // A PROXY header of 64 KiB that never ends.
    scene.bytes(Side::Client, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff");
    scene.bytes(Side::Client, &[0; 60_000]);
    assert!(scene.session.held_bytes() >= 60_000);
    // Commands without a text.
    let mut scene = Scene::logged_in(caps::SECURE_CONNECTION);
    let before = scene.session.held_bytes();
    let pings = packet(0, b"\x0e").repeat(4000);
    scene.bytes(Side::Client, &pings);
    assert!(scene.session.held_bytes() - before >= 4000 * size_of::<Command>());
    let answers = packet(1, OK).repeat(4000);
    scene.bytes(Side::Server, &answers);
    assert!(scene.session.held_bytes() < before + 20 * size_of::<Command>());
    // The user of a login that waits.
    let (user, before) = ([b'u'; 5000], scene.session.held_bytes());
    scene.client(0, &[&b"\x11"[..], &user, b"\0\0\0"].concat());
    let held = scene.session.held_bytes() - before;
    assert!((640..2000).contains(&held), "{held}");
    // Prepared statements without a text.
    let mut scene = Scene::logged_in(0);
    let before = scene.session.held_bytes();
    for id in 0..1000_u32 {
        let prepared = [&[0][..], &id.to_le_bytes(), &[0; 7]].concat();
        scene.client(0, b"\x16").server(1, &prepared);
    }
    assert!(scene.session.held_bytes() - before >= 64 * 1000);
}

#[test]
fn acknowledgements_of_a_replica_are_no_commands() {
    let mut scene = Scene::logged_in(0);
    scene.client(0, b"\x12\x04\0\0\0\x01\0\x01\0\0\0").server(1, b"\0event");
    for _ in 0..5000 {
        scene.client(0, b"\xef\x04\0\0\0\0\0\0\0binlog.1").server(1, b"\0event");
    }
    // A command that was sent meanwhile is one; the stream may end.
    scene.client(0, b"\x03DO 1").server(2, b"\xfe\0\0\0\0").server(1, OK);
    assert_eq!(scene.take(), ["point Binlog Dump 0 0", "Query [] DO 1", "end Query 0 0"]);
}

#[test]
fn extreme_times_do_not_overflow() {
    let mut scene = Scene::logged_in(0);
    scene.at(i64::MIN).client(0, b"\x03DO 1").at(i64::MAX).server(1, OK);
    scene.at(i64::MAX).client(0, b"\x03DO 2").at(i64::MIN).gap(Side::Server, 5);
    assert_eq!(scene.take().last().map(String::as_str), Some("lost tcp_gap 5"));
    assert_eq!(scene.notes.since, [i64::MIN]);
}

#[test]
fn a_load_balancer_names_its_client() {
    let mut scene = Scene::new(false);
    scene
        .bytes(Side::Client, b"PROXY TCP4 192.0.2.7 ")
        .bytes(Side::Client, b"192.0.2.1 4711 1\r\n");
    scene.greet(0).client(1, &login(0)).server(2, OK);
    assert_eq!(scene.take(), ["login me 0"]);
    assert_eq!((&scene.session.who.ip[..], scene.session.who.port), ("192.0.2.7", 4711));
}
