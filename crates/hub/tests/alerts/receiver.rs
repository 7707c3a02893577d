//! A receiver of webhooks: an HTTP server for one request at a time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use serde_json::Value;

/// Takes one request and gives it an answer, which is all of the response. Returns its body.
pub fn answer(listener: &TcpListener, answer: &str) -> Value {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(&stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (&stream).write_all(answer.as_bytes()).unwrap();
    serde_json::from_slice(&body).unwrap()
}
