//! `tacho capture`: what the kernel hands over, and how long it keeps that.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::capture_live::{Capture, Wire, in_namespace, make_interfaces, of};

#[test]
fn packets_with_vlan_tags_are_recorded() {
    in_namespace("user", "capture_kernel::packets_with_vlan_tags_are_recorded", inside_vlans);
}

fn inside_vlans() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let capture = Capture::start(directory.path());
    for tags in 0..3_u16 {
        let mut wire = Wire::open(6_000 + tags);
        wire.tags = tags.into();
        wire.log_in_here().statement(&format!("SELECT {tags}"));
        let line = capture.wait_for_statement(&format!("SELECT {tags}"));
        assert_ne!(line["session"], "partial", "{line}");
    }
}

#[test]
fn a_standstill_with_few_packets_loses_nothing() {
    let name = "capture_kernel::a_standstill_with_few_packets_loses_nothing";
    in_namespace("user", name, inside_standstill);
}

fn inside_standstill() {
    make_interfaces();
    let directory = tempfile::tempdir().expect("a directory");
    let capture = Capture::start(directory.path());
    let mut wire = Wire::log_in(6_100);
    capture.signal(libc::SIGSTOP);
    let since = Instant::now();
    let mut count = 0;
    // The kernel hands over a block that is not full, too: the ring must have enough of them.
    while since.elapsed() < Duration::from_secs(2) {
        wire.statement(&format!("SELECT {count}"));
        count += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    capture.signal(libc::SIGCONT);
    capture.wait_for_statement(&format!("SELECT {}", count - 1));
    let lines = capture.stop();
    assert_eq!(of(&lines, "lost"), Vec::<&Value>::new());
    assert_eq!(of(&lines, "statement").len(), count);
}
