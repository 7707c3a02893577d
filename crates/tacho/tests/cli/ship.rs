//! `tacho ship`: the command line, TLS, and exit codes. The protocol is tested in `crates/ship`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::{Log, statement, stderr, stdout, tacho};
use crate::syslog::Authority;

const REFUSED: &str = "401 Unauthorized\r\n\r\n{\"code\":\"token\",\"message\":\"no such token\"}";
const EMPTY: &str =
    "200 OK\r\n\r\n{\"protocol\":1,\"origin\":\"db1\",\"generation\":1,\"files\":[]}";

/// Answers each request like this, and closes the connection. Returns its port.
fn answering(answer: &'static str, tls: Option<ServerConfig>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = tls.map(Arc::new);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            match &tls {
                None => reply(stream, answer),
                Some(tls) => {
                    let connection = ServerConnection::new(Arc::clone(tls)).unwrap();
                    reply(StreamOwned::new(connection, stream), answer);
                }
            }
        }
    });
    port
}

fn reply(mut stream: impl Read + Write, answer: &str) {
    let mut request = Vec::new();
    let mut byte = [0];
    // A client that refuses the certificate sends no request.
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        request.push(byte[0]);
    }
    let (status, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream.flush().unwrap();
}

/// A log with a line, and a token beside it.
fn log() -> (Log, Log) {
    let (log, other) = (Log::new(), Log::new());
    let line = statement(1, "2026-11-21T10:00:00.000000+00:00", "SELECT 1") + "\n";
    log.append("audit-20261121T100000Z-000001.jsonl", line);
    other.append("token", "secret\n");
    (log, other)
}

fn ship(hub: &str, args: &[&str]) -> std::process::Output {
    let (log, other) = log();
    let token = other.file("token");
    let (path, token) = (log.path().to_str().unwrap(), token.to_str().unwrap());
    tacho(&[&["ship", path, "--hub", hub, "--token-file", token, "--name", "db1"], args].concat())
}

#[test]
fn a_wrong_command_line_is_refused() {
    let output = ship("http://hub.example:7780", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("only to a loopback address"), "{}", stderr(&output));
    let output = ship("https://hub.example", &["--name", "a/b"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let (log, _) = log();
    let path = log.path().to_str().unwrap();
    let hub = ["--hub", "http://127.0.0.1:1", "--name", "db1"];
    let output = tacho(&[&["ship", path, "--token-file", "/nowhere"], &hub[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot read the token file /nowhere"), "{}", stderr(&output));
}

#[test]
fn a_refused_token_ends_a_single_run() {
    let port = answering(REFUSED, None);
    let output = ship(&format!("http://127.0.0.1:{port}"), &["--once"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("tacho: http://127.0.0.1:{port}: no such token (token)\n");
    assert_eq!(stderr(&output), expected);
}

#[test]
fn a_check_says_what_would_be_shipped() {
    let port = answering(EMPTY, None);
    let output = ship(&format!("http://127.0.0.1:{port}"), &["--check"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = format!(
        "http://127.0.0.1:{port} accepts the token for db1, generation 1\n\
         1 log file here, 1 of them not at the hub yet\n\
         the log continues what the hub has\n"
    );
    assert_eq!(stdout(&output), expected);
}

#[test]
fn the_certificate_of_a_hub_is_verified() {
    let authority = Authority::new();
    let port = answering(REFUSED, Some(authority.server("localhost", |_| ())));
    let hub = format!("https://localhost:{port}");
    let ca = authority.path("ca.pem");
    let output = ship(&hub, &["--once", "--tls-ca", &ca]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no such token (token)"), "{}", stderr(&output));
    let stranger = Authority::called("Other");
    let other = stranger.path("ca.pem");
    for (hub, ca, reason) in [
        (hub, other, "its authority is not known; name it with --tls-ca"),
        (format!("https://127.0.0.1:{port}"), ca, "it is for another name"),
    ] {
        let output = ship(&hub, &["--once", "--tls-ca", &ca, "--give-up-after", "0s"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
        assert!(stderr(&output).contains("giving up (--give-up-after)"), "{}", stderr(&output));
    }
}
