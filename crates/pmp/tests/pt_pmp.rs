//! Zone: outside. Compares the text with pt-pmp's own: it gets the stacks as gdb's text, we get the
//! same stacks.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use tacho_pmp::modules::Frame;
use tacho_pmp::profile::Profile;
use tacho_pmp::pt_pmp;
use tacho_pmp::state::ThreadState;

/// A function as gdb shows it, our name, and its file (none: the program itself).
type Function = (&'static str, Option<&'static str>, Option<&'static str>);

const POLL: Function = ("poll ()", Some("poll"), Some("/lib/x86_64-linux-gnu/libc.so.6"));
const COMMAND: Function = ("do_command(THD*, bool) ()", Some("do_command"), None);
const C: Function = ("handle_one_connection ()", Some("handle_one_connection"), None);
const START: Function = ("?? ()", None, Some("/lib/x86_64-linux-gnu/libc.so.6"));
const NAMELESS: Function = ("?? ()", None, None);
const PLUGIN: Function = ("?? ()", None, Some("/usr/lib/mysql/plugin/server_audit.so"));
const METHOD: Function = (
    "tpool::thread_pool_generic::worker_main(tpool::worker_data*) ()",
    Some("tpool::thread_pool_generic::worker_main"),
    None,
);
const TEMPLATE: Function = (
    "std::_Hashtable<int, std::pair<int const, int>, std::hash<int> >::find(int const&) ()",
    Some("std::_Hashtable<int, std::pair<int const, int>, std::hash<int> >::find"),
    None,
);

/// Stacks and their number of samples.
const STACKS: [(&[Function], u64); 6] = [
    (&[POLL, COMMAND, C, NAMELESS, START], 12),
    (&[POLL, PLUGIN, C, NAMELESS, START], 3),
    (&[METHOD, START], 3),
    (&[TEMPLATE, METHOD, START], 7),
    (&[PLUGIN, PLUGIN, COMMAND], 1),
    (&[C], 1),
];

#[test]
fn the_text_is_that_of_pt_pmp() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gdb.txt");
    fs::write(&file, gdb_text()).expect("writing gdb's text");
    let output = Command::new("pt-pmp")
        .arg(&file)
        // Otherwise its sort depends on the language.
        .env("LC_ALL", "C")
        .output()
        .expect("pt-pmp is installed (Debian: percona-toolkit)");
    let theirs = String::from_utf8(output.stdout).expect("text");
    assert!(theirs.lines().count() == STACKS.len(), "{theirs}");
    assert_eq!(pt_pmp::text(&profile(), false), theirs);
}

fn gdb_text() -> String {
    let mut text = String::new();
    for (stack, count) in STACKS {
        for thread in 0..count {
            writeln!(text, "Thread {thread} (Thread 0x7f00 (LWP 1)):").expect("a string");
            for (number, (function, _, file)) in stack.iter().enumerate() {
                let from = file.map_or(String::new(), |file| format!(" from {file}"));
                writeln!(text, "#{number}  0x00007f28c012 in {function}{from}").expect("a string");
            }
            writeln!(text).expect("a string");
        }
    }
    text
}

fn profile() -> Profile {
    let mut profile = Profile::new(1, "mariadbd");
    for (stack, count) in STACKS {
        let mut numbers = Vec::new();
        for (_, name, file) in stack {
            let module = file.map_or("mariadbd", |file| file.rsplit('/').next().expect("a name"));
            numbers.push(profile.frame(Frame {
                function: name.map_or_else(|| format!("[{module}+0x1234]"), str::to_owned),
                module: module.to_owned(),
                is_named: name.is_some(),
                is_program: file.is_none(),
            }));
        }
        let entry = profile.entry(numbers, ThreadState::Running, "t", |_, _| false);
        profile.entries[entry].count = count;
    }
    profile
}
