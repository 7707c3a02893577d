//! Samples a server until a pattern was found.

use std::fs;

use crate::wait;
use tacho_pmp::processlist::ProcessList;
use tacho_pmp::sampler::{Sampler, StopPolicy};
use tacho_pmp::verdict::{Finding, Patterns};
use tacho_sandbox::server::PrivateServer;

/// A pattern counts as found with this many samples.
const SAMPLES_ENOUGH: u64 = 3;

/// Samples the server until the pattern was found often enough.
pub fn find(server: &PrivateServer, name: &str) -> Finding {
    let patterns = Patterns::built_in().expect("patterns");
    let pid = server.pid().expect("a running server");
    let program = fs::read_to_string(format!("/proc/{pid}/comm")).expect("its name");
    let mut sampler =
        Sampler::new(pid as i32, program.trim(), StopPolicy::Needed, &patterns).expect("a sampler");
    let socket = format!("--socket={}", server.socket().display());
    let options = ["--no-defaults".into(), socket.into(), "--user=root".into()];
    let process_list = ProcessList::start(&options, None).expect("a process list");
    let mut found = None;
    wait::until(&format!("the pattern {name:?}"), || {
        assert!(sampler.round(&process_list.take()).expect("a round"), "the server ended");
        let findings = patterns.findings(sampler.profile());
        found = findings.into_iter().find(|finding| finding.name == name);
        found.as_ref().is_some_and(|finding| finding.samples >= SAMPLES_ENOUGH)
    });
    assert_eq!(sampler.profile().stops.refused, 0);
    found.expect("a finding")
}
