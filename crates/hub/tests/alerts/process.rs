//! The command: a hub that is killed while its mail server is down, and `alert test`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use tacho_hub::alerts::list;
use tacho_hub::database::Database;

use crate::HANGS_AFTER;
use crate::sinks::{Kind, Sink, free_address};

const HUB: &str = env!("CARGO_BIN_EXE_tacho-hub");

struct Hub(Child);

impl Hub {
    /// A hub with an alert: the disk has less space than the reserve.
    fn start(data: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(HUB)
            .args(["serve", "--listen", "127.0.0.1:0", "--reserve-mib", "1000000000"])
            .args(["--alert-wait", "0", "--alert-interval", "0", "--data"])
            .arg(data)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        Self(child)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn test(data: &Path) -> Output {
    Command::new(HUB).args(["alert", "test", "--data"]).arg(data).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_hub_that_is_killed_sends_what_it_could_not_once() {
    let data = tempfile::tempdir().unwrap();
    let (address, log) = (free_address(), Sink::start(Kind::Syslog(None)));
    let (server, log_server) = (format!("plain://{address}"), format!("tcp://{}", log.address));
    let options = ["--mail-server", &server, "--mail-from", "hub@a.example"];
    let options = [&options[..], &["--mail-to", "ann@b.example", "--syslog", &log_server]].concat();
    let hub = Hub::start(data.path(), &options);
    assert!(log.next().text.contains(r#""rule":"disk_full""#));
    let database = Database::open(&data.path().join("hub.sqlite")).unwrap();
    let is_stored = |channel: &str, is_wanted: &dyn Fn(&str, u64) -> bool| {
        let begun = Instant::now();
        let is_found = || {
            let alerts = list(&database, None).unwrap();
            let mut all = alerts.iter().flat_map(|alert| &alert.deliveries);
            all.any(|it| it.channel == channel && is_wanted(&it.state, it.tries))
        };
        while !is_found() {
            assert!(begun.elapsed() < HANGS_AFTER, "{channel}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    is_stored("syslog", &|state, _| state == "sent");
    is_stored("mail:ann@b.example", &|state, tries| state == "pending" && tries > 0);
    drop(hub);
    let sink = Sink::at(address, Kind::Smtp(None));
    let hub = Hub::start(data.path(), &options);
    assert!(sink.next().text.contains("the hub accepts no logs"));
    is_stored("mail:ann@b.example", &|state, tries| state == "sent" && tries > 1);
    drop(hub);
    sink.assert_no_more();
    log.assert_no_more();
}

#[test]
fn a_test_goes_to_each_channel_and_says_what_became_of_it() {
    let data = tempfile::tempdir().unwrap();
    let refused = test(data.path());
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("there is no channel"), "{refused:?}");
    let sink = Sink::start(Kind::Syslog(None));
    let (down, log) = (format!("plain://{}", free_address()), format!("tcp://{}", sink.address));
    let options =
        ["--mail-server", &down, "--mail-from", "a@b.example", "--mail-to", "c@d.example"];
    let hub = Hub::start(data.path(), &[&options[..], &["--syslog", &log]].concat());
    assert!(sink.next().text.contains("disk_full"));
    let outcome = test(data.path());
    assert_eq!(outcome.status.code(), Some(1));
    let lines = text(&outcome.stdout);
    assert!(lines.contains("mail:c@d.example: failed: Connection refused"), "{lines}");
    assert!(lines.contains("syslog: sent\n"), "{lines}");
    assert!(text(&outcome.stderr).contains("1 of 2 channels failed"));
    assert!(sink.next().text.contains(r#""rule":"test""#));
    drop(hub);
    let hub = Hub::start(data.path(), &["--syslog", &log]);
    assert_eq!(text(&test(data.path()).stdout), "syslog: sent\n");
    drop(hub);
}
