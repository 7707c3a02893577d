//! Zone: outside. `tacho top` beside a real server: statements that run are in its arena only.

use std::process::Command;
use std::thread;

use tacho_tests::client::Queryable as _;
use tacho_tests::recording::Recording;
use tacho_tests::{program, wait};

/// One update.
fn top(server: &Recording, args: &[&str]) -> String {
    let mut command = Command::new(program("tacho"));
    command.arg("top").arg(server.log_directory()).args(["--batch", "--updates", "1"]).args(args);
    let output = command.output().expect("the command is built");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The row of RUNNING with a text.
fn running<'a>(shown: &'a str, text: &str) -> Option<&'a str> {
    let (_, rest) = shown.split_once("RUNNING")?;
    let (table, _) = rest.split_once("\n\n")?;
    table.lines().find(|line| line.contains(text))
}

#[test]
fn statements_are_shown_while_they_run_and_counted_when_they_have_ended() {
    let mut server = Recording::builder().start().expect("a server");
    let mut conn = server.connect().expect("a connection");
    // The texts of these statements may be at the same address, one after the other.
    for number in 0..20 {
        conn.query_drop(format!("SELECT {number}, 'short'")).expect("an answer");
    }
    let id = conn.connection_id();
    let mut killer = server.connect().expect("a connection");
    thread::scope(|scope| {
        scope.spawn(|| {
            // It ends by the KILL below, on MySQL without an error.
            let _killed = conn.query_drop("SELECT SLEEP(500), 'long'");
        });
        let mut shown = String::new();
        wait::until("the statement is shown", || {
            shown = top(&server, &[]);
            running(&shown, "SELECT SLEEP(500), 'long'").is_some()
        });
        let row = running(&shown, "'long'").expect("as above");
        assert!(row.trim_start().starts_with(&format!("{id}  ")), "{shown}");
        assert!(running(&shown, "'short'").is_none(), "{shown}");
        killer.query_drop(format!("KILL QUERY {id}")).expect("it is there");
    });
    let mut shown = String::new();
    wait::until("the statement has ended", || {
        shown = top(&server, &["--by", "user", "--grep", "'long'"]);
        running(&shown, "'long'").is_none() && shown.contains("last 1m00s: 1 statement, ")
    });
    server.stop().expect("stops");
    let shown = top(&server, &[]);
    assert!(shown.contains("RUNNING: 0"), "{shown}");
}
