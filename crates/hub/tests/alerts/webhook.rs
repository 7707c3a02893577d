//! Webhooks: which addresses they may be at, and what is an answer.

use std::net::TcpListener;
use std::thread::JoinHandle;

use serde_json::Value;
use tacho_hub::alerts::webhook::WebhookFormat;

use crate::{AlertArgs, Hub, file, receiver, settings};

/// Answers requests, one after the other, and returns their bodies.
fn receiver(listener: TcpListener, answers: Vec<&'static str>) -> JoinHandle<Vec<Value>> {
    std::thread::spawn(move || {
        answers.into_iter().map(|text| receiver::answer(&listener, text)).collect()
    })
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{\"code\":0}";
const NO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 22\r\nConnection: close\r\n\r\n\
    {\"code\":9,\"msg\":\"no :(\"";
const ELSEWHERE: &str = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn an_address_that_is_not_public_is_refused_unless_it_is_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut hub = Hub::new();
    hub.raise(&Hub::silent("db1", "x"));
    let url = file(hub.directory.path(), "url", &format!("http://localhost:{port}/secret\n"));
    let mut settings = AlertArgs { webhook_file: Some(url), ..settings() };
    hub.start(&settings);
    let error = hub.wait_failed_try();
    assert!(error.contains("not a public address") && !error.contains("secret"), "{error}");
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    hub.stop();
    settings.webhook_allow_private = true;
    let receiver = receiver(listener, vec![ELSEWHERE, OK]);
    hub.start(&settings);
    hub.wait_sent("open");
    let bodies = receiver.join().unwrap();
    assert_eq!(bodies[1]["alerts"][0]["labels"]["server"], "db1");
}

#[test]
fn a_chat_tool_that_says_no_with_status_200_is_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut hub = Hub::new();
    hub.raise(&Hub::silent("db1", "x"));
    let settings = AlertArgs {
        webhook: Some(format!("http://{}/", listener.local_addr().unwrap())),
        webhook_format: WebhookFormat::Feishu,
        webhook_allow_private: true,
        ..settings()
    };
    let receiver = receiver(listener, vec![NO, OK]);
    hub.start(&settings);
    assert_eq!(hub.wait_sent("open").tries, 2);
    let bodies = receiver.join().unwrap();
    assert_eq!(bodies[0], bodies[1]);
    assert_eq!(bodies[0]["msg_type"], "post");
}
