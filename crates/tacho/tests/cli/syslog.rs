//! `tacho convert --send` as a service: TLS, broken connections, and where the next run resumes.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::support::{Following, Log, command, statement, stderr, tacho};

/// Only a hang lasts this long; otherwise no test depends on time.
const HANG: Duration = Duration::from_secs(600);
const FIRST: &str = "audit-20261121T100000Z-000001.jsonl";
const SECOND: &str = "audit-20261121T110000Z-000002.jsonl";
const THIRD: &str = "audit-20261121T120000Z-000003.jsonl";

fn line(seq: u64) -> String {
    statement(seq, "2026-11-21T10:00:00.000000+00:00", &format!("SELECT {seq}")) + "\n"
}

fn lines(seqs: std::ops::RangeInclusive<u64>) -> String {
    seqs.map(line).collect()
}

/// A certificate authority, as a file and for signing.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

impl Authority {
    pub fn new() -> Self {
        Self::called("Authority")
    }

    pub fn called(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, directory }
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        roots
    }

    /// A certificate for `name` and its key; `change` may spoil it.
    fn sign(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// The configuration of a receiver called `name`.
    pub fn server(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> ServerConfig {
        let (certificate, key) = self.sign(name, change);
        builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private(&key))
            .unwrap()
    }
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(key.serialize_der().into())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn builder() -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap()
}

/// A syslog server: accepts one connection at a time and reports the `seq` of each message.
struct SyslogServer {
    address: String,
    seqs: Receiver<u64>,
    connections: Arc<AtomicUsize>,
}

impl SyslogServer {
    fn start(tls: Option<ServerConfig>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), tls, &[])
    }

    /// Accepts only so many messages from the first connections, and then dies.
    fn on(listener: TcpListener, tls: Option<ServerConfig>, cuts: &'static [usize]) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let (sender, seqs) = channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let tls = tls.map(Arc::new);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let messages_max = cuts.get(number).copied().unwrap_or(usize::MAX);
                let stream = stream.unwrap();
                if messages_max < usize::MAX {
                    reset_at_end(&stream);
                }
                let mut reader = Frames::new(stream, tls.clone());
                // A refused connection ends at the first read.
                for _ in 0..messages_max {
                    let Some(frame) = reader.next() else { break };
                    let Some(seq) = seq_of(&frame) else { panic!("{frame}") };
                    if sender.send(seq).is_err() {
                        return;
                    }
                }
            }
        });
        Self { address, seqs, connections }
    }

    fn next(&self) -> u64 {
        self.seqs.recv_timeout(HANG).expect("a message")
    }

    /// Receives messages until all of `seqs` have arrived. Returns the number of others.
    fn expect_all(&self, seqs: std::ops::RangeInclusive<u64>) -> usize {
        let mut missing: BTreeSet<u64> = seqs.collect();
        let (wanted, mut count) = (missing.len(), 0);
        while !missing.is_empty() {
            missing.remove(&self.next());
            count += 1;
        }
        count - wanted
    }
}

/// Makes the connection end as if the receiver died with unread messages.
fn reset_at_end(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the descriptor is open, and SO_LINGER takes one `linger`.
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    assert_eq!(answer, 0);
}

fn seq_of(frame: &str) -> Option<u64> {
    let line: serde_json::Value =
        serde_json::from_str(frame.split_once(" - statement - ")?.1).ok()?;
    line["seq"].as_u64()
}

/// The frames of a connection.
struct Frames {
    stream: Box<dyn std::io::Read>,
}

impl Frames {
    fn new(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> Self {
        let Some(tls) = tls else { return Self { stream: Box::new(stream) } };
        let connection = ServerConnection::new(tls).unwrap();
        Self { stream: Box::new(rustls::StreamOwned::new(connection, stream)) }
    }

    fn next(&mut self) -> Option<String> {
        let mut length = 0;
        loop {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).ok()?;
            match byte[0] {
                b' ' => break,
                digit => length = length * 10 + usize::from(digit - b'0'),
            }
        }
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame).ok()?;
        Some(String::from_utf8(frame).unwrap())
    }
}

/// Follows a log and sends it.
fn follow(log: &Log, to: &str, args: &[&str]) -> Following {
    let path = log.path().to_str().unwrap();
    let all = ["convert", path, "--follow", "--format", "syslog", "--send", to];
    Following::run(&[&all, args].concat())
}

fn state(log: &Log) -> String {
    log.file("state").to_str().unwrap().to_owned()
}

/// The `seq` in a state file.
fn saved(path: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["seq"].as_u64()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANG, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn tls_across_rotation_and_compression() {
    let (log, ca) = (Log::new(), Authority::new());
    let small = zstd::encode_all(lines(1..=100).as_bytes(), 3).unwrap();
    log.append(&format!("{FIRST}.zst"), small);
    log.append(SECOND, lines(101..=200));
    let server = SyslogServer::start(Some(ca.server("127.0.0.1", |_| {})));
    let to = format!("tls://{}", server.address);
    let (state, authority) = (state(&log), ca.path("ca.pem"));
    let args = ["--tls-ca", &authority, "--state", &state];
    let following = follow(&log, &to, &args);
    for seq in 1..=200 {
        assert_eq!(server.next(), seq);
    }
    log.append(SECOND, lines(201..=250));
    log.append(THIRD, lines(251..=300));
    for seq in 201..=300 {
        assert_eq!(server.next(), seq);
    }
    let (code, _, told) = following.end("-TERM");
    assert_eq!((code, told.as_str()), (Some(0), ""));
    assert_eq!(saved(&state), Some(300));
    // The next run resumes exactly there, although its file was compressed in between.
    let plain = log.file(THIRD);
    let small = zstd::encode_all(&*std::fs::read(&plain).unwrap(), 3).unwrap();
    std::fs::write(log.file(&format!("{THIRD}.zst")), small).unwrap();
    std::fs::remove_file(plain).unwrap();
    log.append("audit-20261121T130000Z-000004.jsonl", lines(301..=310));
    let following = follow(&log, &to, &args);
    for seq in 301..=310 {
        assert_eq!(server.next(), seq);
    }
    assert_eq!(following.end("-TERM"), (Some(0), vec![], String::new()));
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
}

/// The messages if either side rejects the other.
fn refusal(server: &SyslogServer, args: &[&str]) -> String {
    let log = Log::new();
    log.append(FIRST, line(1));
    let to = format!("tls://{}", server.address);
    let following = follow(&log, &to, args);
    wait_until("a connection", || server.connections.load(Ordering::Relaxed) >= 2);
    let (code, _, told) = following.end("-TERM");
    assert_eq!(code, Some(1), "{told}");
    assert!(server.seqs.try_recv().is_err());
    // Reported once, however often it was tried.
    assert_eq!(told.matches("retrying").count(), 1, "{told}");
    told
}

#[test]
fn errors_of_a_certificate_are_reported() {
    let (ca, other, same_name) = (Authority::new(), Authority::called("Other"), Authority::new());
    let (known, unknown) = (ca.path("ca.pem"), other.path("ca.pem"));
    let good = || SyslogServer::start(Some(ca.server("127.0.0.1", |_| {})));
    let told = refusal(&good(), &["--tls-ca", &unknown]);
    assert!(told.contains("its authority is not known; name it with --tls-ca"), "{told}");
    let told = refusal(&good(), &["--tls-ca", &same_name.path("ca.pem")]);
    assert!(told.contains("it is not signed by the authority that it names"), "{told}");
    let told = refusal(&good(), &["--tls-ca", &known, "--tls-server-name", "log.example"]);
    assert!(told.contains("it is for another name") && told.contains("log.example"), "{told}");
    let expired = ca.server("127.0.0.1", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let expired = SyslogServer::start(Some(expired));
    let told = refusal(&expired, &["--tls-ca", &known]);
    assert!(told.contains("it has expired"), "{told}");
}

#[test]
fn our_certificate_is_sent_on_request() {
    let ca = Authority::new();
    let (certificate, key) = ca.sign("127.0.0.1", |_| {});
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(ca.roots()), provider());
    let config = builder()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![certificate.der().clone()], private(&key))
        .unwrap();
    let server = SyslogServer::start(Some(config));
    let authority = ca.path("ca.pem");
    let told = refusal(&server, &["--tls-ca", &authority]);
    assert!(told.contains("it requires a client certificate"), "{told}");

    let (certificate, key) = ca.sign("db1", |_| {});
    let (cert_path, key_path) = (ca.path("cert.pem"), ca.path("key.pem"));
    std::fs::write(&cert_path, certificate.pem()).unwrap();
    std::fs::write(&key_path, key.serialize_pem()).unwrap();
    let log = Log::new();
    log.append(FIRST, line(1));
    let to = format!("tls://{}", server.address);
    let args = ["--tls-ca", &authority, "--tls-cert", &cert_path, "--tls-key", &key_path];
    let following = follow(&log, &to, &args);
    assert_eq!(server.next(), 1);
    assert_eq!(following.end("-TERM").0, Some(0));
}

#[test]
fn a_late_receiver_gets_everything() {
    let log = Log::new();
    log.append(FIRST, lines(1..=50));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let state = state(&log);
    let following = follow(&log, &format!("tcp://{address}"), &["--state", &state]);
    log.append(SECOND, lines(51..=60));
    let server = SyslogServer::on(TcpListener::bind(address).unwrap(), None, &[]);
    for seq in 1..=60 {
        assert_eq!(server.next(), seq);
    }
    assert_eq!(following.end("-TERM").0, Some(0));
    assert_eq!(saved(&state), Some(60));
}

#[test]
fn connections_that_are_cut_under_load_lose_nothing() {
    const LINES: u64 = 2000;
    for tls in [false, true] {
        let (log, ca) = (Log::new(), Authority::new());
        log.append(FIRST, lines(1..=LINES));
        let config = tls.then(|| ca.server("127.0.0.1", |_| {}));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = SyslogServer::on(listener, config, &[0, 300, 1100]);
        let authority = ca.path("ca.pem");
        let to = format!("{}://{}", if tls { "tls" } else { "tcp" }, server.address);
        let args: &[&str] = if tls { &["--tls-ca", &authority] } else { &[] };
        let following = follow(&log, &to, args);
        // Messages of the broken connections are sent again: it is unknown which were read.
        assert_eq!(server.expect_all(1..=LINES), 1400);
        let (code, _, told) = following.end("-TERM");
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("messages of seq 1 to "), "{told}");
        assert!(told.contains(" were sent again and may be duplicates"), "{told}");
    }
}

#[test]
fn after_kill_9_every_line_arrives() {
    const LINES: u64 = 20_000;
    let log = Log::new();
    log.append(FIRST, lines(1..=LINES / 2));
    log.append(SECOND, lines(LINES / 2 + 1..=LINES));
    let server = SyslogServer::start(None);
    let (to, state) = (format!("tcp://{}", server.address), state(&log));
    let mut missing: BTreeSet<u64> = (1..=LINES).collect();
    let mut count = 0;
    for round in 1..=3 {
        let following = follow(&log, &to, &["--state", &state]);
        // In the middle of it.
        while (missing.len() as u64) > LINES - round * LINES / 4 {
            missing.remove(&server.next());
            count += 1;
        }
        following.kill();
    }
    let following = follow(&log, &to, &["--state", &state]);
    while !missing.is_empty() {
        missing.remove(&server.next());
        count += 1;
    }
    // The missing ones may have come from the killed ones.
    wait_until("it knows that all has come", || saved(&state) == Some(LINES));
    assert_eq!(following.end("-TERM").0, Some(0));
    assert!(count >= LINES, "{count}");
    // Nothing is left to send.
    log.append(SECOND, line(LINES + 1));
    let following = follow(&log, &to, &["--state", &state]);
    assert_eq!(server.seqs.iter().find(|seq| *seq > LINES), Some(LINES + 1));
    assert_eq!(following.end("-TERM"), (Some(0), vec![], String::new()));
}

#[test]
fn removed_lines_are_reported() {
    let log = Log::new();
    log.append(FIRST, lines(1..=5));
    let server = SyslogServer::start(None);
    let (to, state) = (format!("tcp://{}", server.address), state(&log));
    let following = follow(&log, &to, &["--state", &state]);
    assert_eq!(server.expect_all(1..=5), 0);
    assert_eq!(following.end("-TERM").0, Some(0));
    std::fs::remove_file(log.file(FIRST)).unwrap();
    log.append(THIRD, lines(9..=10));
    let following = follow(&log, &to, &["--state", &state]);
    assert_eq!(server.expect_all(9..=10), 0);
    let (code, _, told) = following.end("-TERM");
    assert_eq!(code, Some(1));
    assert!(told.contains("is gone; continuing with audit-20261121T120000Z-000003"), "{told}");
    assert!(told.contains("3 lines missing before this one, seq 6 to 8"), "{told}");
}

#[test]
fn another_log_is_an_error() {
    let log = Log::new();
    log.append(FIRST, lines(1..=5));
    let server = SyslogServer::start(None);
    let (to, state) = (format!("tcp://{}", server.address), state(&log));
    let following = follow(&log, &to, &["--state", &state]);
    assert_eq!(server.expect_all(1..=5), 0);
    // A second process may not use its state.
    let path = log.path().to_str().unwrap();
    let args = ["convert", path, "--format", "syslog", "--send", &to, "--state", &state];
    let output = tacho(&args);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("in use by another `tacho convert`"), "{}", stderr(&output));
    assert_eq!(following.end("-TERM").0, Some(0));

    let begun_anew: PathBuf = log.file(SECOND);
    std::fs::remove_file(log.file(FIRST)).unwrap();
    let other = statement(1, "2026-11-22T10:00:00.000000+00:00", "SELECT 'other'") + "\n";
    std::fs::write(begun_anew, other).unwrap();
    let output = tacho(&args);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("another log than that of the state"), "{}", stderr(&output));
    assert_eq!(saved(&state), Some(5));
    assert!(server.seqs.try_recv().is_err());
}

#[test]
fn an_end_while_the_receiver_is_unreachable_is_reported() {
    let log = Log::new();
    log.append(FIRST, lines(1..=5));
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (to, state) = (format!("tcp://{unused}"), state(&log));
    for (args, expected) in [(vec!["--state", &*state], 0), (vec![], 1)] {
        let path = log.path().to_str().unwrap();
        let all = ["convert", path, "--follow", "--format", "syslog", "--send", &to];
        let mut child = command(&[&all, &args[..]].concat())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It has detected that the receiver is unreachable.
        let mut told = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        std::io::BufRead::read_line(&mut told, &mut first).unwrap();
        assert!(first.contains("Connection refused"), "{first}");
        let pid = child.id().to_string();
        assert!(
            std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success()
        );
        assert_eq!(child.wait().unwrap().code(), Some(expected));
    }
    assert!(!std::path::Path::new(&state).exists());
}

#[test]
fn the_contents_of_a_message_are_an_option() {
    let log = Log::new();
    log.append(FIRST, line(1));
    let path = log.path().to_str().unwrap();
    for (body, expected) in [("cef", " - CEF:0|Tachograph|tacho|"), ("leef", " - LEEF:2.0|")] {
        let output = tacho(&["convert", path, "--format", "syslog", "--syslog-body", body]);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("<110>1 ") && text.contains(expected), "{text}");
    }
}

#[test]
fn contradictory_options_are_refused() {
    let log = Log::new();
    log.append(FIRST, line(1));
    let (path, state, file) = (log.path().to_str().unwrap(), state(&log), log.file(FIRST));
    let (one, missing) = (file.to_str().unwrap(), "/nowhere/ca.pem");
    for args in [
        &[path, "--send", "tcp://127.0.0.1:1", "--tls-ca", missing][..],
        &[path, "--send", "tls://127.0.0.1:1", "--tls-ca", missing],
        &[path, "--send", "tls://127.0.0.1:1", "--tls-ca", one],
        &[path, "--send", "tls://127.0.0.1:1", "--tls-cert", one],
        &[path, "--send", "tls://a_b c:1", "--tls-ca", one],
        &[one, "--send", "tcp://127.0.0.1:1", "--state", &state],
        &[path, "--state", &state],
    ] {
        let output = tacho(&[&["convert", "--format", "syslog"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    }
}
