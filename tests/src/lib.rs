//! Zone: outside. Real servers, real clients, real load.
//!
//! Tests that need more than one crate, and `make run`, are written with these parts:
//!
//! | part | contents |
//! |---|---|
//! | [`server`] | a private MariaDB in a directory of its own, to be killed at will |
//! | [`mysql_server`] | the same with MySQL |
//! | [`product`] | the same with any of them |
//! | [`recording`] | the same, recording from the first start on, for tests on all servers |
//! | [`mysql_place`] | where such a test keeps its log and its arenas |
//! | [`mysql_replication`] | a source and a replica |
//! | [`mysql_rewriting`] | rules that rewrite, in MySQL |
//! | [`client`] | a connection to it, and its status variables |
//! | [`tagged`] | a load whose every statement has an id, with a list of the answered ones |
//! | [`sysbench`] | the well-known load, and its report |
//! | [`raw`] | a client of the bare protocol, for packets that no library sends |
//! | [`log`] | a strict reader of the audit log, with its invariants |
//! | [`map_auth`] | an authentication plugin that maps users to others |
//! | [`recorded`] | the lines of a log, connection by connection, in a short form |
//! | [`verdict`] | the answered ids against the ids in the log |
//! | [`audit`] | all of that about one log directory |
//! | [`namespace`] | a network namespace, in which packets may be captured |
//! | [`charsets`] | statements in every character set |
//! | [`captured`] | a capture beside a server, and both logs compared |
//! | [`captured_load`] | what the sessions of a captured server do |
//! | [`command_line`] | the command-line client of a server, with a script |
//! | [`benched`] | `tacho bench`, and whether it restores a server |
//! | [`guide`] | the tables of the guide |
//! | [`converted`] | the log in another format |
//! | [`arena`] | the few words of a living arena that a test reads |
//! | [`hidden`] | secrets that must not be found, names that must |
//! | [`disk`] | a file system that is full, a device that fails or is slow |
//! | [`memory_disk`] | a small file system for a test in a namespace, which can become larger |
//! | [`claim`] | the directory of a run |
//! | [`wait`] | waits for a condition |
//! | [`paired`] | throughput with and without recording, from alternating blocks |
//!
//! Errors are `anyhow` errors: their only reader is the developer of a failed test. All paths are
//! below `build/` of the source tree, so a failed test can be examined.

pub mod arena;
pub mod audit;
pub mod benched;
pub mod captured;
pub mod captured_load;
pub mod charsets;
pub mod claim;
pub mod command_line;
pub mod converted;
pub mod crowd;
pub mod disk;
pub mod find;
pub mod guide;
pub mod hidden;
pub mod hub;
pub mod log;
pub mod map_auth;
pub mod memory_disk;
pub mod mysql_place;
pub mod mysql_replication;
pub mod mysql_rewriting;
pub mod mysql_server;
pub mod namespace;
pub mod paired;
pub mod product;
pub mod proxy;
pub mod raw;
pub mod recorded;
pub mod recording;
pub mod sealed;
pub mod server;
pub mod tagged;
pub mod verdict;
pub mod wait;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub use tacho_sandbox::{client, sysbench};

/// The root of the source tree.
pub fn source_root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// `build/` of the source tree, without `..` in it: it appears in messages and commands.
pub fn build_directory() -> PathBuf {
    let root = source_root();
    root.canonicalize().unwrap_or_else(|_| root.to_path_buf()).join("build")
}

/// The path of `tacho` or `tacho-hub`: in the directory `TACHO_BIN`, by default in `build/bin`.
pub fn program(name: &str) -> PathBuf {
    match std::env::var_os("TACHO_BIN") {
        Some(directory) => Path::new(&directory).join(name),
        None => build_directory().join("bin").join(name),
    }
}

/// The unique path of a directory below `build/test`. The directory is not created.
#[must_use]
pub fn unused_directory(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    build_directory().join(format!("test/{name}-{}-{count}", std::process::id()))
}

/// Some containers forbid namespaces. A test that does less there must report it.
///
/// # Panics
/// Unless the environment has `TACHO_WITHOUT_NAMESPACES=1`.
pub fn without_namespaces(consequence: &str) {
    assert!(
        std::env::var("TACHO_WITHOUT_NAMESPACES").is_ok_and(|value| value == "1"),
        "this machine forbids namespaces: {consequence}. TACHO_WITHOUT_NAMESPACES=1 accepts that"
    );
    leave_out(&format!("namespaces are forbidden: {consequence}"));
}

/// Lists something that is not tested, at the end of `make test`.
///
/// # Panics
/// The list cannot be written.
pub fn leave_out(what: &str) {
    let added = std::process::Command::new(source_root().join("scripts/left-out.sh"))
        .args(["add", what])
        .status()
        .expect("running scripts/left-out.sh");
    assert!(added.success(), "scripts/left-out.sh: {added}");
}
