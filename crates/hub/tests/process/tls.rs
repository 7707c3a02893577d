//! TLS, and clients that take what they can.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::hub::{Hub, Shipping, assert_same};
use crate::recorder::sealed;
use crate::shipping::Log;

/// Files with an authority, and a certificate for localhost.
struct Certificates {
    directory: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let write = |name: &str, text: String| {
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        write("ca.pem", issuer.pem());
        write("cert.pem", certificate.pem());
        write("key.pem", key.serialize_pem());
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn shipping(hub: &Hub, log: &Path, ca: &Path) -> Shipping {
    let port = hub.address.rsplit(':').next().unwrap();
    Shipping::to(hub, &format!("https://localhost:{port}"), Some(ca), log, "db1", true)
}

#[test]
fn a_log_is_shipped_over_tls() {
    let certificates = Certificates::new();
    let (cert, key) = (certificates.text("cert.pem"), certificates.text("key.pem"));
    let mut hub = Hub::start();
    hub.stop();
    hub.spawn(&["--tls-cert", &cert, "--tls-key", &key]);
    let log = Log::new(sealed());
    let (verdict, said) = shipping(&hub, log.path(), &certificates.path("ca.pem")).finish();
    assert_eq!(verdict.problem_count, 0, "{said}");
    assert_same(log.path(), &hub.replica("db1", 1));
    // Plain HTTP is not answered.
    let mut plain = TcpStream::connect(&hub.address).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn a_wrong_key_is_said_at_the_start() {
    let (one, two) = (Certificates::new(), Certificates::new());
    let hub = Hub::start();
    let data = tempfile::tempdir().unwrap();
    let (cert, key) = (one.text("cert.pem"), two.text("key.pem"));
    for (cert, key) in [(cert.as_str(), key.as_str()), (&cert, &cert), ("/none", &key)] {
        let output = std::process::Command::new(crate::hub::HUB)
            .args(["serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key])
            .arg("--data")
            .arg(data.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("cannot use"), "{said}");
    }
    drop(hub);
}

#[test]
fn one_address_cannot_take_all_connections() {
    let mut hub = Hub::start();
    hub.stop();
    hub.spawn(&["--connections-per-address", "20"]);
    let idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&hub.address).unwrap()).collect();
    // The hub accepts in order: those above are counted when this one is closed.
    let mut refused = TcpStream::connect(&hub.address).unwrap();
    let mut answer = Vec::new();
    let read = refused.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{read:?}");
    drop(idle);
    let is_served = || {
        let mut stream = TcpStream::connect(&hub.address).unwrap();
        let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        stream.write_all(request).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.starts_with("HTTP/1.1 200")
    };
    while !is_served() {
        std::thread::sleep(Duration::from_millis(20));
    }
}
