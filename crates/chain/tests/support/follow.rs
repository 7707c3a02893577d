//! A follower of a growing log says the same as a verification, at each moment.

use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};

use tacho_chain::verify::{self, Directory, Follower, GrowingDirectory, Options, Report};

use super::Dir;

impl GrowingDirectory for Dir {
    fn length(&self, name: &str) -> u64 {
        self.0.get(name).map_or(0, |bytes| bytes.len() as u64)
    }

    fn open_from(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let bytes = self.0.get(name).ok_or_else(|| io::Error::from_raw_os_error(2))?;
        Ok(Box::new(&bytes[usize::try_from(offset).expect("small")..]))
    }
}

/// Lets the directory grow to what it is, in several ways, and compares.
pub fn assert_follows(dir: &Dir, options: &Options) {
    let is_plain = |name: &String| !name.ends_with(".zst") && !name.ends_with(".age");
    if !dir.names().expect("names").iter().all(is_plain) {
        return;
    }
    // Tests with thousands of directories take the ways in turn.
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let ways = [(usize::MAX, true), (700, false), (333, true)];
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    for (portion, removed_first) in ways.into_iter().skip(turn % 3).take(1) {
        let mut follower = Follower::new(options.clone());
        let mut growing = Dir::default();
        let mut names: Vec<&String> = dir.0.keys().collect();
        // As they are shipped: by age, lines before their sidecar.
        names.sort_by_key(|name| {
            let stem = name.split('.').next().unwrap_or_default().to_owned();
            let is_removed = name.ends_with("removed.chain");
            (is_removed != removed_first, stem, name.ends_with(".chain"))
        });
        for (number, name) in names.into_iter().enumerate() {
            let bytes = &dir.0[name];
            growing.0.insert(name.clone(), Vec::new());
            for part in bytes.chunks(portion.min(bytes.len()).max(1)) {
                growing.file(name).extend(part);
                advance(&mut follower, &growing);
            }
            if number % 2 == 0 {
                compare(&mut follower, &growing, options);
            }
        }
        compare(&mut follower, dir, options);
        let again = follower.advance(dir).expect("memory can be read");
        assert!(!again, "nothing has changed");
    }
}

/// Reads what is there, everything again if that is needed.
fn advance(follower: &mut Follower, dir: &Dir) {
    if follower.advance(dir).expect("memory can be read") {
        follower.restart();
        assert!(!follower.advance(dir).expect("memory can be read"));
    }
}

fn compare(follower: &mut Follower, dir: &Dir, options: &Options) {
    advance(follower, dir);
    let followed = follower.report(dir).expect("memory can be read");
    let verified = verify::verify(dir, options, &mut |_| {}).expect("memory can be read");
    assert_eq!(text(&followed), text(&verified));
}

/// A report without the order of its findings.
fn text(report: &Report) -> String {
    let mut findings: Vec<String> =
        report.findings.iter().map(|found| format!("{:?} {found}", found.state)).collect();
    findings.sort();
    if report.more_findings > 0 {
        findings.clear();
    }
    let mut counted = report.clone();
    counted.findings.clear();
    format!("{findings:#?} {counted:#?}")
}
