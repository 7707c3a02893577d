//! Zone: outside. A MySQL that records, and whose packets are captured: both logs have the same
//! statements, except for the differences that `docs/guide/capture.md` lists.
//!
//! The clients do not use TLS, so they send passwords encrypted with the server's public key.

use std::path::Path;

use tacho_tests::captured::{Capture, assert_same, sessions, wait_for_ends};
use tacho_tests::captured_load::{
    APP, SYSBENCH_SESSIONS, large_statement, prepare, run_sysbench, script,
};
use tacho_tests::charsets;
use tacho_tests::client::Queryable as _;
use tacho_tests::command_line::CommandLine;
use tacho_tests::mysql_place::{self, LogAndArenas};
use tacho_tests::namespace;
use tacho_tests::raw::{Login, Raw, com};

/// How this server changes a password.
const SET_PASSWORD: &str = "SET PASSWORD FOR u = 'another secret'";

/// Commands of the client that are not statements, and several statements in a packet.
fn special_script(rows: &Path) -> String {
    format!(
        "
query_attributes first hushhush second 2
SELECT 'with attributes';
SELECT 'without';
CREATE TABLE loaded (id INT);
LOAD DATA LOCAL INFILE '{rows}' INTO TABLE loaded;
LOAD DATA LOCAL INFILE '/nosuch' INTO TABLE loaded;
delimiter //
SELECT 1; UPDATE loaded SET id = id + 1; SELECT id FROM loaded//
SELECT 4; THIS IS NOT SQL; SELECT 5//
USE mysql; DO 1; USE shop//
delimiter ;
SET @a = 1;
resetconnection
SELECT @a;
",
        rows = rows.display()
    )
}

/// Commands that client programs do not send: cursors, long data, commands without a text.
fn run_raw(port: u16) {
    let login = Login { db: Some(b"shop"), ..Login::new("guest") };
    let mut raw = Raw::login_tcp(port, &login).expect("a connection").expect("a session");
    let id = raw.prepare("SELECT id, v FROM t WHERE id > ?").expect("a packet").expect("it");
    // Executed without a cursor after one with, a server of 9.7 would not end its answer.
    raw.execute(id, &[None], false).expect("an answer");
    raw.execute(id, &[Some(b"0")], true).expect("an answer");
    for _ in 0..2 {
        let body = [id.to_le_bytes(), 2_u32.to_le_bytes()].concat();
        raw.command(com::STMT_FETCH, &body).expect("an answer");
    }
    raw.command(com::STMT_RESET, &id.to_le_bytes()).expect("an answer");
    raw.command(com::STMT_CLOSE, &id.to_le_bytes()).expect("a packet");
    let id = raw.prepare("INSERT INTO t (v) VALUES (?)").expect("a packet").expect("it");
    let piece = [&id.to_le_bytes()[..], &0_u16.to_le_bytes(), b"piece"].concat();
    for _ in 0..2 {
        raw.command(com::STMT_SEND_LONG_DATA, &piece).expect("a packet");
    }
    raw.execute(id, &[Some(b"")], false).expect("an answer");
    raw.prepare("SELECT nothing FROM nowhere").expect("a packet").expect_err("an error");
    let commands: [(u8, &[u8]); 7] = [
        (com::PING, b""),
        (com::STATISTICS, b""),
        (com::INIT_DB, b"mysql"),
        (com::INIT_DB, b"shop"),
        (com::INIT_DB, b"nosuch"),
        (com::SET_OPTION, &[0, 0]),
        (com::RESET_CONNECTION, b""),
    ];
    for (command, body) in commands {
        raw.command(command, body).expect("an answer");
    }
    raw.change_user(b"guest", b"", b"shop").expect("an answer");
    raw.change_user(b"nobody_known", b"", b"shop").expect("an answer");
    // It ends the session.
}

/// A reset leaves a session with the server's own character set, not with that of its login.
fn run_reset(port: u16) {
    // `latin1_swedish_ci`
    let login = Login { collation: 8, ..Login::new("guest") };
    let mut raw = Raw::login_tcp(port, &login).expect("a connection").expect("a session");
    raw.query(b"SELECT '\xe4 in latin1'").expect("an answer");
    raw.command(com::RESET_CONNECTION, b"").expect("an answer");
    raw.query("SELECT 'ä in utf8mb4'").expect("an answer");
    raw.command(com::QUIT, b"").expect("an end");
}

/// The library of another client, which changes to an account with a password.
fn run_library(port: u16) {
    let options = mysql::OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(port)
        .user(Some("other"))
        .pass(Some("too"))
        .prefer_socket(false)
        .stmt_cache_size(0);
    let mut conn = mysql::Conn::new(options).expect("a session");
    let statement = conn.prep("SELECT v FROM shop.t WHERE id = ? OR v = ?").expect("it");
    for id in [1, 2] {
        conn.exec_drop(&statement, (id, "c")).expect("an answer");
    }
    conn.close(statement).expect("a packet");
    conn.reset().expect("an answer");
    conn.query_drop("SELECT 'after a reset'").expect("an answer");
    let change = mysql::ChangeUserOpts::default()
        .with_user(Some("app".to_owned()))
        .with_pass(Some("right".to_owned()))
        .with_db_name(Some("shop".to_owned()));
    conn.change_user(change).expect("another user");
    conn.query_drop("SELECT COUNT(*) FROM t").expect("an answer");
}

#[test]
fn the_capture_records_what_the_plugin_records() {
    let test = "capture::the_capture_records_what_the_plugin_records";
    if !namespace::enter(test, "captured sessions are not compared with the component's") {
        return;
    }
    let place = LogAndArenas::new("capture");
    let options = ["disable-log-bin", "max-allowed-packet=64M", "local-infile=1"];
    let builder = options.iter().fold(place.builder(), |builder, option| builder.option(option));
    let (mut server, mut root) = mysql_place::start(builder);
    prepare(&mut root, server.socket()).expect("accounts and tables");
    for statement in [
        "CREATE USER other@'127.0.0.1' IDENTIFIED BY 'too'",
        "GRANT ALL ON *.* TO other@'127.0.0.1', guest@'127.0.0.1'",
    ] {
        root.query_drop(statement).expect(statement);
    }
    let rows = place.path().join("rows.txt");
    std::fs::write(&rows, "1\n2\n3\n").expect("a file");
    let port = server.port();
    let mut capture = Capture::start(port, &place.path().join("capture")).expect("a capture");
    let client = CommandLine::of(&server);
    // The first login of an account sends its password, later ones only a proof.
    client.run(APP, &["shop"], &script(SET_PASSWORD));
    // 8.0 has commands of the client by default, and no such option.
    let args = ["--local-infile=1", "--loose-commands", "shop"];
    client.run(APP, &args, &special_script(&rows));
    let large = large_statement((16 << 20) + 1);
    for algorithm in ["uncompressed", "zlib", "zstd"] {
        let option = format!("--compression-algorithms={algorithm}");
        let args = [&option[..], "--max-allowed-packet=64M", "shop"];
        assert!(client.run(APP, &args, "SELECT REPEAT('y', 90000);"));
        assert!(client.run(APP, &args, &large));
    }
    assert!(!client.run(("app", "wrong"), &[], "SELECT 'not sent'"));
    assert!(!client.run(APP, &["nosuch"], "SELECT 'not sent'"));
    run_sysbench(port, "disable");
    run_sysbench(port, "auto");
    run_raw(port);
    run_reset(port);
    run_library(port);
    let of_charsets = charsets::send_all(&mut root, port, "guest");
    drop(root);
    // Those of `mysql`, of sysbench, and of the three others.
    let sessions_count = 2 + 3 * 2 + 2 * SYSBENCH_SESSIONS + 3 + of_charsets;
    wait_for_ends(&place.log(), capture.log(), sessions_count);
    capture.stop().expect("its end");
    server.stop().expect("stopping");
    let captured = sessions(capture.log());
    assert_same(&sessions(&place.log()), &captured);
    let statements = captured.values().flatten().filter(|line| line["event"] == "statement");
    assert!(statements.count() > 2_000);
    let count = |of: &str| captured.values().flatten().filter(|it| it["command"] == of).count();
    assert_eq!(count("Reset connection"), 4, "one of each client that can");
    // The value of a query attribute.
    assert!(captured.values().flatten().all(|line| !line.to_string().contains("hushhush")));
}
