//! The hot zone in a living server: between entry and exit of the event callback nothing is
//! allocated, nothing is locked, nothing blocks and errno stays as it was.
//!
//! The watcher is `tests/preload/detector.c`, preloaded into the server; the plugin under
//! test is the one that is shipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;
use tacho_tests::server::TestServer;
use tacho_tests::sysbench::Sysbench;
use tacho_tests::tagged;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn build_detector(directory: &Path) -> Result<PathBuf> {
    let detector = directory.join("detector.so");
    let status = Command::new("gcc")
        .args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-o"])
        .arg(&detector)
        .arg(repository().join("tests/preload/detector.c"))
        .status()
        .context("running gcc")?;
    ensure!(status.success(), "the detector does not compile");
    Ok(detector)
}

fn figure(report: &str, name: &str) -> Option<u64> {
    let line = report.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Errors on purpose, nested statements, several statements in a packet, long texts.
fn work(server: &TestServer) -> Result<()> {
    let mut conn = server.connect()?;
    conn.query_drop("CREATE DATABASE IF NOT EXISTS hot")?;
    conn.query_drop("CREATE TABLE hot.t (id INT PRIMARY KEY, note LONGTEXT)")?;
    conn.query_drop(
        "CREATE PROCEDURE hot.p() BEGIN INSERT INTO hot.t VALUES (1, 'x'); SELECT 1; END",
    )?;
    conn.query_drop("CALL hot.p()")?;
    ensure!(conn.query_drop("CALL hot.p()").is_err(), "a duplicate key is an error");
    ensure!(conn.query_drop("selec 1").is_err(), "a parse error is an error");
    conn.query_drop("SELECT 1; SELECT 2; SELECT 3")?;
    conn.query_drop("EXECUTE IMMEDIATE 'SELECT 4'")?;
    let long = "y".repeat(200_000);
    conn.exec_drop("INSERT INTO hot.t VALUES (?, ?)", (2, long))?;
    Ok(())
}

#[test]
fn the_event_callback_neither_allocates_nor_locks_nor_blocks() -> Result<()> {
    let plugin = tacho_tests::server::plugin();
    let directory = tacho_tests::unused_directory("hotzone");
    fs::create_dir_all(&directory)?;
    let directory = directory.canonicalize()?;
    let detector = build_detector(&directory)?;
    let report = directory.join("report");
    let mut server = TestServer::builder()
        .plugin(&plugin)
        .directory(directory.join("server"))
        .environment("LD_PRELOAD", &detector.to_string_lossy())
        .environment("TACHO_DETECTOR_REPORT", &report.to_string_lossy())
        .option("--tacho-tables=ON")
        .option("--plugin-load-add=tacho")
        .start()?;
    work(&server)?;
    let mut conn = server.connect()?;
    tagged::prepare(&mut conn, 4)?;
    let running =
        tagged::Load { threads: 4, ..tagged::Load::new(server.socket(), "hot") }.start()?;
    let bench = Sysbench::new(server.socket(), "oltp_read_write").threads(8).seconds(3);
    bench.prepare(&mut conn)?;
    bench.run(|_| {})?;
    let tally = running.stop()?;
    ensure!(!tally.acknowledged.is_empty(), "the tagging client did nothing");
    drop(conn);
    server.stop()?;

    let report = fs::read_to_string(&report).context("the detector saw no event")?;
    ensure!(figure(&report, "events").is_some_and(|n| n > 1_000), "too few events:\n{report}");
    ensure!(figure(&report, "violations") == Some(0), "the hot zone broke its rules:\n{report}");
    ensure!(figure(&report, "errno_changes") == Some(0), "errno was changed:\n{report}");
    fs::remove_dir_all(&directory)?;
    Ok(())
}
