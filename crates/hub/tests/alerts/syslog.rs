//! Syslog over TCP, TLS and UDP.

use serde_json::Value;

use crate::sinks::{Certificates, Kind, Sink, free_address};
use crate::{AlertArgs, Hub, settings};

fn syslog(to: String) -> AlertArgs {
    AlertArgs { syslog: Some(to), ..settings() }
}

/// Head and body of a message.
fn parts(text: &str) -> (&str, Value) {
    let (head, body) = text.split_once(" - {").unwrap_or_else(|| panic!("{text}"));
    let start = text.len() - body.len() - 1;
    (head, serde_json::from_str(&text[start..]).unwrap())
}

#[test]
fn each_alert_is_a_message_and_a_restart_repeats_none() {
    let address = free_address();
    let settings = syslog(format!("tcp://{address}"));
    let mut hub = Hub::new();
    hub.raise(&Hub::silent("db1", "x\n<13>1 - evil - - - - y"));
    hub.raise(&Hub::silent("db2", "x"));
    hub.start(&settings);
    let error = hub.wait_failed_try();
    assert!(error.contains("refused"), "{error}");
    hub.stop();
    let sink = Sink::at(address, Kind::Syslog(None));
    hub.start(&settings);
    let mut servers = Vec::new();
    for _ in 0..2 {
        let message = sink.next().text;
        let (head, body) = parts(&message);
        assert!(head.starts_with("<107>1 ") && head.ends_with(" tacho-hub - shipper_silent"));
        assert!(!message.contains('\n') && body["status"] == "firing", "{message}");
        servers.push(body["server"].as_str().unwrap().to_owned());
    }
    servers.sort();
    assert_eq!(servers, ["db1", "db2"]);
    assert!(hub.wait_sent("open").tries > 1);
    hub.stop();
    hub.start(&settings);
    hub.close_all();
    for _ in 0..2 {
        let message = sink.next().text;
        let (head, body) = parts(&message);
        assert!(head.starts_with("<109>1 ") && body["status"] == "resolved", "{message}");
    }
    hub.wait_sent("closed");
    drop(hub);
    sink.assert_no_more();
}

#[test]
fn tls_is_verified() {
    let (good, other) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    let sink = Sink::start(Kind::Syslog(Some(good.acceptor.clone())));
    let mut settings = syslog(format!("tls://localhost:{}", sink.address.port()));
    let mut hub = Hub::new();
    hub.raise(&Hub::silent("db1", "x"));
    settings.alert_ca = Some(other.ca());
    hub.start(&settings);
    let error = hub.wait_failed_try();
    assert!(error.contains("its authority is not known"), "{error}");
    sink.assert_no_more();
    hub.stop();
    settings.alert_ca = Some(good.ca());
    hub.start(&settings);
    assert_eq!(parts(&sink.next().text).1["server"], "db1");
    hub.wait_sent("open");
    drop(hub);
    sink.assert_no_more();
}

#[test]
fn a_datagram_is_a_message() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(crate::HANGS_AFTER)).unwrap();
    let mut hub = Hub::new();
    hub.raise(&Hub::silent("db1", &"x".repeat(10_000)));
    hub.start(&syslog(format!("udp://{}", socket.local_addr().unwrap())));
    let mut datagram = vec![0; 1 << 16];
    let length = socket.recv(&mut datagram).unwrap();
    // RFC 5426: receivers should take 2048 bytes.
    assert!(length <= 2048, "{length} bytes");
    let text = String::from_utf8(datagram[..length].to_vec()).unwrap();
    assert_eq!(parts(&text).1["rule"], "shipper_silent");
    hub.wait_sent("open");
}
