//! Messages over real sockets.

use super::*;
use crate::report;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;

fn sender(to: &str) -> Sender {
    Sender::new(to.parse().unwrap(), None, None, Arc::default(), Arc::default(), report::none())
}

fn mark(seq: u64) -> Option<Mark> {
    let ts = "2026-11-21T10:00:00Z".parse().unwrap();
    Some(Mark { file: "audit-20261121T100000Z-000001".into(), seq, ts })
}

#[test]
fn a_datagram_is_a_message() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Only a failed test waits.
    receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut sender = sender(&format!("udp://{}", receiver.local_addr().unwrap()));
    sender.send(b"one".to_vec(), mark(1));
    sender.send(b"two".to_vec(), mark(2));
    let mut buffer = [0; 100];
    for expected in ["one", "two"] {
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], expected.as_bytes());
    }
    // More than a datagram can hold: told and counted, and the next one goes.
    sender.send(vec![b'x'; 70_000], mark(3));
    sender.send(b"four".to_vec(), mark(4));
    assert_eq!(sender.too_large.load(Ordering::Relaxed), 1);
    let length = receiver.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"four");
    assert_eq!(sender.place(), mark(4).as_ref());
    assert_eq!(sender.finish().unwrap(), 0);
}

#[test]
fn a_socket_of_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let receiver = UnixDatagram::bind(&path).unwrap();
    sender(path.to_str().unwrap()).send(b"message".to_vec(), None);
    let mut buffer = [0; 100];
    let length = receiver.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"message");
}

/// Reads frames up to the end of a connection.
fn frames(mut stream: TcpStream) -> Vec<String> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let mut text = std::str::from_utf8(&bytes).unwrap();
    let mut frames = Vec::new();
    while let Some((length, rest)) = text.split_once(' ') {
        let (frame, rest) = rest.split_at(length.parse().unwrap());
        frames.push(frame.to_owned());
        text = rest;
    }
    frames
}

#[test]
fn a_stream_is_counted() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(&format!("tcp://{}", receiver.local_addr().unwrap()));
    let reader = std::thread::spawn(move || frames(receiver.accept().unwrap().0));
    sender.send("first".into(), mark(1));
    sender.send("zwölf".into(), mark(2));
    assert_eq!(sender.finish().unwrap(), 0);
    assert_eq!(sender.place(), mark(2).as_ref());
    assert_eq!(reader.join().unwrap(), ["first", "zwölf"]);
}

/// Lets the sender look until something is so. Only a failed test waits long.
fn wait_until(sender: &mut Sender, is_so: impl Fn(&Sender) -> bool) {
    let begun = Instant::now();
    while !is_so(sender) {
        assert!(begun.elapsed() < Duration::from_secs(600), "it never was");
        sender.ask();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_the_receiver_had_read_when_it_closed_is_not_sent_again() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(&format!("tcp://{}", receiver.local_addr().unwrap()));
    sender.send("first".into(), mark(1));
    let (mut stream, _) = receiver.accept().unwrap();
    stream.read_exact(&mut [0; 7]).unwrap();
    wait_until(&mut sender, |sender| sender.taken == 1);
    drop(stream);
    wait_until(&mut sender, |sender| sender.link.is_none());
    // Not reported.
    assert!(sender.outage.is_none());
    assert_eq!((sender.queue.len(), sender.place()), (0, mark(1).as_ref()));
    sender.send("second".into(), mark(2));
    let reader = std::thread::spawn(move || frames(receiver.accept().unwrap().0));
    assert_eq!(sender.finish().unwrap(), 0);
    assert_eq!(reader.join().unwrap(), ["second"]);
}

#[test]
fn what_the_receiver_had_not_read_is_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp://{}", receiver.local_addr().unwrap());
    let state = Some(StateFile::open(&path, report::none()).unwrap());
    let mut sender = Sender::new(
        to.parse().unwrap(),
        None,
        state,
        Arc::default(),
        Arc::default(),
        report::none(),
    );
    for seq in 1..=3 {
        sender.send(format!("line {seq}").into(), mark(seq));
    }
    let (mut stream, _) = receiver.accept().unwrap();
    wait_until(&mut sender, |sender| sender.taken == 3);
    assert_eq!(sender.place(), mark(3).as_ref());
    sender.state.as_mut().unwrap().save(mark(3).as_ref()).unwrap();
    // It reads one of three and dies: the kernel had taken them all.
    stream.read_exact(&mut [0; 8]).unwrap();
    drop(stream);
    wait_until(&mut sender, |sender| sender.link.is_none());
    // Nothing is known any more, and the state says so.
    assert_eq!((sender.place(), path.exists()), (None, false));
    assert_eq!(sender.again, Some((1, 3)));
    let reader = std::thread::spawn(move || frames(receiver.accept().unwrap().0));
    sender.send("line 4".into(), mark(4));
    assert_eq!(sender.finish().unwrap(), 0);
    assert_eq!(reader.join().unwrap(), ["line 1", "line 2", "line 3", "line 4"]);
    drop(sender);
    assert_eq!(StateFile::open(&path, report::none()).unwrap().saved(), mark(4).as_ref());
}

#[test]
fn no_more_is_kept_than_a_receiver_can_have_unread() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = sender(&format!("tcp://{}", receiver.local_addr().unwrap()));
    let reader = std::thread::spawn(move || frames(receiver.accept().unwrap().0).len());
    for seq in 1..=40 {
        sender.send(vec![b'x'; 1 << 20], mark(seq));
    }
    let last = sender.queue.back().unwrap().end;
    sender.settle(last);
    assert!(sender.taken_bytes <= AGAIN_BYTES);
    assert_eq!(sender.queue.len(), 8);
    assert_eq!(sender.before, mark(32));
    assert_eq!(sender.finish().unwrap(), 0);
    assert_eq!(reader.join().unwrap(), 40);
}

#[test]
fn ctrl_c_ends_the_wait() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sender = sender(&format!("tcp://{unused}"));
    sender.stop.store(true, Ordering::Relaxed);
    sender.send("lost".into(), mark(1));
    assert_eq!(sender.finish().unwrap(), 1);
}
