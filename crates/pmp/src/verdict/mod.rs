//! The known patterns in a profile.
//!
//! The patterns are in `patterns.toml`, which says how to add one.

mod patterns;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::profile::Profile;
use crate::state::ThreadState;

pub use patterns::{BUILT_IN, Pattern, Patterns, PatternsError};

/// From this share of the samples on, a pattern deserves attention.
pub const NOTABLE_PERCENT: f64 = 5.0;

/// A pattern that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Its name.
    pub name: String,
    /// Samples that show it.
    pub samples: u64,
    /// Percentage of all samples of threads that were not waiting for work.
    pub percent: f64,
    /// What it means.
    pub meaning: String,
    /// What to do.
    pub advice: String,
    /// The state of most samples that show it.
    pub state: Option<ThreadState>,
    /// Samples at the same location in any state.
    pub states: BTreeMap<ThreadState, u64>,
    /// Process list states of the threads that show it.
    pub sql: BTreeMap<String, u64>,
}

impl Finding {
    fn new(pattern: &Pattern) -> Self {
        Self {
            name: pattern.name.clone(),
            samples: 0,
            percent: 0.0,
            meaning: pattern.meaning.clone(),
            advice: pattern.advice.clone(),
            state: None,
            states: BTreeMap::new(),
            sql: BTreeMap::new(),
        }
    }
}

impl Patterns {
    /// The findings of a profile, the most frequent first.
    pub fn findings(&self, profile: &Profile) -> Vec<Finding> {
        let total = profile.samples(false);
        let mut findings: Vec<Finding> = Vec::new();
        let mut names: Vec<&str> = self.pattern.iter().map(|p| p.name.as_str()).collect();
        names.dedup();
        for name in names {
            // Rows with the same name are variants of one pattern.
            let rows: Vec<&Pattern> = self.pattern.iter().filter(|p| p.name == name).collect();
            let mut finding = Finding::new(rows[0]);
            let mut shown: BTreeMap<ThreadState, u64> = BTreeMap::new();
            for entry in profile.seen(false) {
                let at_place = |row: &&&Pattern| row.is_place_of(profile, entry);
                let places: Vec<_> = rows.iter().filter(at_place).collect();
                if places.is_empty() {
                    continue;
                }
                *finding.states.entry(entry.state).or_default() += entry.count;
                if places.iter().any(|row| row.has_state(entry.state)) {
                    finding.samples += entry.count;
                    *shown.entry(entry.state).or_default() += entry.count;
                    for (text, count) in &entry.sql {
                        *finding.sql.entry(text.clone()).or_default() += count;
                    }
                }
            }
            if finding.samples > 0 {
                let most = shown.into_iter().max_by_key(|(_, count)| *count);
                finding.state = most.map(|(state, _)| state);
                finding.percent = 100.0 * finding.samples as f64 / total as f64;
                findings.push(finding);
            }
        }
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.samples));
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::Frame;

    /// Stacks as observed on MariaDB 10.11 of Debian 12: thread, state, functions.
    fn profile(stacks: &[(&str, ThreadState, &[&str])]) -> Profile {
        let patterns = Patterns::built_in().expect("the table");
        let mut profile = Profile::new(1, "mariadbd");
        for (thread, state, functions) in stacks {
            let mut stack = Vec::new();
            for function in *functions {
                let (module, function) = function.split_once('!').unwrap_or(("mariadbd", function));
                stack.push(profile.frame(Frame {
                    function: function.to_owned(),
                    module: module.to_owned(),
                    is_named: true,
                    is_program: module == "mariadbd",
                }));
            }
            let entry = profile.entry(stack, *state, thread, |p, e| patterns.is_idle(p, e));
            profile.entries[entry].count += 1;
        }
        profile
    }

    fn names(stacks: &[(&str, ThreadState, &[&str])]) -> Vec<String> {
        let patterns = Patterns::built_in().expect("the table");
        patterns.findings(&profile(stacks)).into_iter().map(|f| f.name).collect()
    }

    const SESSION: [&str; 3] = ["dispatch_command", "do_command", "do_handle_one_connection"];

    #[test]
    fn each_known_stack_has_its_verdict() {
        use ThreadState::{Condition, Disk, Lock};
        let cases: [(&str, ThreadState, &[&str]); 13] = [
            (
                "time-zone lock",
                Lock,
                &["libc.so.6!__tz_convert", "Time_zone_system::gmt_sec_to_TIME"],
            ),
            (
                "log mutex",
                Lock,
                &[
                    "libc.so.6!pthread_mutex_lock",
                    "MYSQL_QUERY_LOG::write",
                    "Log_to_file::log_general",
                    "LOGGER::general_log_write",
                ],
            ),
            ("log mutex", Lock, &["MYSQL_QUERY_LOG::write", "LOGGER::slow_log_print"]),
            (
                "log mutex",
                Condition,
                &["thr_lock", "Log_to_csv_event_handler::log_general", "LOGGER::general_log_write"],
            ),
            (
                "server_audit's lock",
                Lock,
                &["rw_pr_rdlock", "server_audit.so![server_audit.so+0x5040]", "mysql_audit_notify"],
            ),
            ("LOCK_plugin", Lock, &["plugin_foreach_with_mask", "mysql_audit_acquire_plugins"]),
            ("LOCK_plugin", Lock, &["plugin_unlock_list", "THD::~THD"]),
            (
                "commit queue",
                Condition,
                &[
                    "MYSQL_BIN_LOG::write_transaction_to_binlog_events",
                    "MYSQL_BIN_LOG::log_and_order",
                    "ha_commit_trans",
                ],
            ),
            (
                "redo log flush",
                Lock,
                &["libc.so.6!syscall", "[mariadbd+0xd5e2c0]", "ha_commit_trans"],
            ),
            (
                "redo log flush",
                Disk,
                &["libc.so.6!fdatasync", "[mariadbd+0xd72c20]", "ha_commit_trans"],
            ),
            (
                "redo log flush",
                Condition,
                &["net_real_write", "net_flush", "Protocol::net_send_ok"],
            ),
            ("tacho's back-pressure", Lock, &["tacho.so!tacho_probe_emit", "mysql_audit_notify"]),
            ("metadata lock", Condition, &["MDL_wait::timed_wait", "MDL_context::acquire_lock"]),
        ];
        for (name, state, functions) in cases {
            let stack = [functions, &SESSION].concat();
            assert_eq!(names(&[("mariadbd", state, &stack)]), [name], "{functions:?}");
        }
    }

    #[test]
    fn the_holder_of_a_lock_is_reported_but_does_not_wait() {
        let place =
            [&["MYSQL_QUERY_LOG::write", "LOGGER::general_log_write"][..], &SESSION].concat();
        let stacks: &[(&str, ThreadState, &[&str])] = &[
            ("mariadbd", ThreadState::Lock, &place),
            ("mariadbd", ThreadState::Lock, &place),
            ("mariadbd", ThreadState::Running, &place),
            ("mariadbd", ThreadState::Running, &SESSION),
        ];
        let patterns = Patterns::built_in().expect("the table");
        let findings = patterns.findings(&profile(stacks));
        assert_eq!((findings.len(), findings[0].samples, findings[0].percent), (1, 2, 50.0));
        let states: Vec<_> = findings[0].states.iter().map(|(s, n)| (*s, *n)).collect();
        assert_eq!(states, [(ThreadState::Running, 1), (ThreadState::Lock, 2)]);
        assert_eq!(findings[0].state, Some(ThreadState::Lock));
    }

    #[test]
    fn threads_that_wait_for_work_do_not_count() {
        let read: &[&str] = &["libc.so.6!poll", "vio_io_wait", "do_command"];
        let stacks: &[(&str, ThreadState, &[&str])] = &[
            ("mariadbd", ThreadState::Network, read),
            ("mariadbd", ThreadState::Condition, &["handle_manager"]),
            ("mariadbd", ThreadState::Sleep, &["main"]),
            ("tacho-writer", ThreadState::Lock, &["tacho.so!wait_for_work"]),
        ];
        assert_eq!(profile(stacks).samples(false), 0);
        assert!(names(stacks).is_empty());
        // A woken thread has work.
        assert_eq!(profile(&[("mariadbd", ThreadState::Running, read)]).samples(false), 1);
    }

    #[test]
    fn a_custom_table_comes_first() {
        let mut patterns = Patterns::built_in().expect("the table");
        let own = "[[pattern]]\nname = 'mine'\nframes = ['do_command | x', 'do_handle*']\n\
                   without = ['never']\nmeaning = 'm'\nadvice = 'a'";
        patterns.add(Patterns::parse(own).expect("a table"));
        let seen = profile(&[("mariadbd", ThreadState::Running, &SESSION)]);
        let findings = patterns.findings(&seen);
        assert_eq!((findings.len(), findings[0].name.as_str()), (1, "mine"));
        // In reverse order they are not on the stack.
        let wrong = own.replace("'do_command | x', 'do_handle*'", "'do_handle*', 'do_command'");
        let patterns = Patterns::parse(&wrong).expect("a table");
        assert!(patterns.findings(&seen).is_empty());
    }
}
