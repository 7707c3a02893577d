//! Zone: outside. A capture of a server that is stopped, killed and started again on its port. Each
//! client reconnects from the port that it had before: statements are recorded once, in the session
//! that sent them, and each session has an end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketType, sockopt};
use serde_json::Value;
use tacho_tests::captured::{Capture, count, counter, lines};
use tacho_tests::client::Queryable as _;
use tacho_tests::raw::{Login, Raw, com};
use tacho_tests::recording::Recording;
use tacho_tests::{namespace, unused_directory, wait};

const CLIENTS: usize = 4;
/// The port of all clients: each has an address of its own.
const CLIENT_PORT: u16 = 4711;
/// Statements after which a client ends its session.
const STATEMENTS_EACH: usize = 40;
/// Answers that each client gets before the server ends: of several sessions.
const ANSWERS: usize = 3 * STATEMENTS_EACH + 10;
/// The user of every second session: a record in a wrong session has a wrong user.
const USERS: [&str; 2] = ["even", "odd"];

/// How the server ends.
#[derive(Clone, Copy)]
enum End {
    /// SIGTERM.
    Stopped,
    /// SIGKILL.
    Killed,
}

/// A session, as its client knows it.
struct Session {
    user: &'static str,
    /// Connection id. `None`: the login failed, or has no answer.
    conn: Option<u64>,
    /// The text of each statement, and its error number, or 0. `None`: it has no answer.
    statements: Vec<(String, Option<u16>)>,
}

/// A client, and what the test knows of it while it runs.
#[derive(Default)]
struct Client {
    number: usize,
    answers: AtomicUsize,
}

impl Client {
    /// An address that only this client has.
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 1, self.number as u8 + 1)
    }

    /// A connection from the same port as all others of this client.
    fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        // Closed, it leaves nothing behind that keeps the port.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        net::bind(&socket, &SocketAddr::from((self.address(), CLIENT_PORT)))?;
        net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        Ok(TcpStream::from(socket))
    }

    /// Opens sessions, one after the other, until the test is over.
    fn run(&self, port: u16, is_over: &AtomicBool) -> Vec<Session> {
        let mut sessions = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            match self.connect(port) {
                Ok(stream) => sessions.push(self.run_session(stream, sessions.len())),
                // The server is not there.
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
        sessions
    }

    fn run_session(&self, stream: TcpStream, number: usize) -> Session {
        let user = USERS[number % 2];
        let mut session = Session { user, conn: None, statements: Vec::new() };
        let Ok(Ok(mut raw)) = Raw::login_over(stream, &Login::new(user)) else { return session };
        session.conn = Some(raw.conn);
        for at in 0..STATEMENTS_EACH {
            let text = format!("SELECT '{} {number} {at}'", self.number);
            let answers = raw.query(&text).ok();
            let errno = answers.and_then(|answers| Some(answers.first()?.errno()));
            session.statements.push((text, errno));
            if errno != Some(0) {
                return session;
            }
            self.answers.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
        // The server may end meanwhile.
        let _ = raw.command(com::QUIT, b"");
        session
    }
}

/// Waits until each client has so many answers more.
fn wait_for_answers(clients: &[Client]) {
    let wanted = |client: &Client| client.answers.load(Ordering::Relaxed) + ANSWERS;
    for (client, wanted) in clients.iter().zip(clients.iter().map(wanted).collect::<Vec<_>>()) {
        let is_reached = || client.answers.load(Ordering::Relaxed) >= wanted;
        wait::until("each client has answers", is_reached);
    }
}

/// Runs the clients while the server ends and is started again. Returns their sessions.
fn run_clients(server: &mut Recording, port: u16, clients: &[Client]) -> Vec<Vec<Session>> {
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let threads = clients.iter().map(|client| scope.spawn(move || client.run(port, is_over)));
        let threads = threads.collect::<Vec<_>>();
        for end in [End::Stopped, End::Killed, End::Killed, End::Stopped] {
            wait_for_answers(clients);
            match end {
                End::Stopped => server.stop().expect("an orderly end"),
                End::Killed => server.kill9().expect("an end"),
            }
            server.restart().expect("the server again");
        }
        wait_for_answers(clients);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("its sessions")).collect()
    })
}

#[test]
fn sessions_of_a_restarted_server_are_recorded_once_and_apart() {
    let test = "capture_restart::sessions_of_a_restarted_server_are_recorded_once_and_apart";
    if !namespace::enter(test, "a capture of a server that is restarted is not tested") {
        return;
    }
    let mut server = Recording::builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    for user in USERS {
        root.query_drop(format!("CREATE USER {user}@'127.0.%'")).expect("an account");
    }
    drop(root);
    let port = server.port();
    // Otherwise each start has another one.
    server.add_option(&format!("port={port}"));
    let directory = unused_directory("capture-restart");
    let options = ["--ring-size", "256MiB"];
    let mut capture = Capture::start_with(port, &directory, &options).expect("a capture");
    let clients = (0..CLIENTS).map(|number| Client { number, ..Client::default() });
    let clients = clients.collect::<Vec<_>>();
    let sessions = run_clients(&mut server, port, &clients);
    // One thread takes the packets: what came before this is recorded before this.
    let mut last = Raw::login_tcp(port, &Login::new(USERS[0])).expect("a connection").expect("it");
    last.must(&["SELECT 'the last'"]);
    last.command(com::QUIT, b"").expect("an end");
    wait::until("the last session is recorded", || count(capture.log(), "SELECT 'the last'") > 0);
    capture.stop().expect("its end");
    assert_eq!(counter(&directory, "dropped_packets_total"), Some(0));
    let lines = lines(capture.log());
    for line in lines.iter().filter(|line| line["event"] == "lost") {
        // A login that the server did not answer.
        assert_eq!(line["cause"], "unanswered", "{line}");
    }
    for (client, sessions) in clients.iter().zip(&sessions) {
        let address = client.address().to_string();
        let lines = lines.iter().filter(|line| line["ip"] == *address).collect::<Vec<_>>();
        assert_recorded(&lines, sessions);
    }
    fs::remove_dir_all(&directory).expect("removing the log");
}

/// The sessions of a client are recorded one after the other, and each with its own statements.
fn assert_recorded(lines: &[&Value], sessions: &[Session]) {
    let mut recorded = BTreeMap::<&str, &Value>::new();
    let mut expected = sessions;
    let mut open: Option<&Session> = None;
    for line in lines {
        assert_eq!(line["port"], CLIENT_PORT, "{line}");
        match line["event"].as_str().expect("an event") {
            "connect" => {
                assert!(open.is_none(), "the session before has no end: {line}");
                let at = position(line, expected);
                open = Some(&expected[at]);
                expected = &expected[at + 1..];
            }
            "statement" => {
                let session = open.unwrap_or_else(|| panic!("in no session: {line}"));
                assert!(is_of(line, session) && line["session"].is_null(), "{line}");
                if let Some(text) = line["sql"].as_str() {
                    let is_own = session.statements.iter().any(|(own, _)| own == text);
                    assert!(is_own, "of another session: {line}");
                    assert!(recorded.insert(text, line).is_none(), "twice: {line}");
                }
            }
            "disconnect" => {
                let session = open.take();
                assert!(session.is_none_or(|session| is_of(line, session)), "{line}");
            }
            other => assert!(["connect_failed", "lost"].contains(&other), "{line}"),
        }
    }
    assert!(open.is_none(), "the last session has no end");
    assert!(expected.iter().all(|session| session.conn.is_none()), "a session is missing");
    for (text, errno) in sessions.iter().flat_map(|session| &session.statements) {
        let line = recorded.get(&text[..]);
        match errno {
            Some(0) => assert!(line.is_some_and(|line| line["outcome"] == "ok"), "{text}"),
            Some(errno) => assert_eq!(line.map(|line| &line["errno"]), Some(&(*errno).into())),
            // It may not have been sent any more.
            None => assert!(line.is_none_or(|line| line["outcome"] == "interrupted"), "{line:?}"),
        }
    }
}

/// Which of the sessions a `connect` line belongs to: the next one whose login has succeeded, or
/// one before it whose client has not received the answer.
fn position(line: &Value, sessions: &[Session]) -> usize {
    let next = sessions.iter().position(|session| session.conn.is_some());
    let before = &sessions[..next.unwrap_or(sessions.len())];
    let of_next = next.filter(|at| is_of(line, &sessions[*at]));
    let found = of_next.or_else(|| before.iter().position(|session| is_of(line, session)));
    found.unwrap_or_else(|| panic!("no client has this session: {line}"))
}

/// Whether a line belongs to a session, as far as its user and its number say.
fn is_of(line: &Value, session: &Session) -> bool {
    let is_conn = session.conn.is_none_or(|conn| line["conn"] == conn);
    is_conn && line["user"] == session.user
}
