//! Zone: outside. Recording switched off and on again, under the feet of its sessions.

use mysql::prelude::Queryable as _;
use tacho_tests::log;
use tacho_tests::server::TestServer;

/// The statement that switches recording on has an end but no start. Its text is shorter than that
/// of the statement before, which was at the same address: the rest of that one is not another
/// statement of its packet.
#[test]
fn switching_invents_no_statement() {
    let mut server =
        TestServer::builder().option("plugin-load-add=tacho").start().expect("a server");
    let mut conn = server.connect().expect("a session");
    for sql in [
        "SELECT 'before, and longer than all that follows'",
        "SET GLOBAL tacho_logging=OFF",
        "SELECT 'unseen'",
        "SET GLOBAL tacho_logging=ON",
        "SELECT 'after'",
    ] {
        conn.query_drop(sql).expect(sql);
    }
    drop(conn);
    server.stop().expect("an orderly end");
    let mut seen = Vec::new();
    log::read(&server.data_directory().join("tacho"), |line, _| {
        if let ("statement", Some(sql)) = (&*line.event, &line.sql) {
            seen.push((sql.clone().into_owned(), line.outcome.clone().map(|o| o.into_owned())));
        }
    })
    .expect("the log");
    let from = seen.iter().position(|(sql, _)| sql.contains("before")).expect("the first one");
    let to = seen.iter().position(|(sql, _)| sql.contains("after")).expect("the last one");
    let sqls: Vec<_> = seen[from..=to].iter().map(|(sql, _)| sql.as_str()).collect();
    assert_eq!(
        sqls,
        [
            "SELECT 'before, and longer than all that follows'",
            "SET GLOBAL tacho_logging=OFF",
            "SET GLOBAL tacho_logging=ON",
            "SELECT 'after'",
        ]
    );
    assert!(seen.iter().all(|(_, outcome)| outcome.as_deref() == Some("ok")), "{seen:?}");
    server.assert_clean_log(&["max_open_files"]);
}
