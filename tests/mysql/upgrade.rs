//! Zone: outside. A MySQL that upgrades its own tables when it starts, as it does when a newer
//! release is put in the place of an older one, with the component, or the plugin, installed before.
//! `scripts/test-release.sh` runs it with each.

use tacho_tests::client::Queryable;
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_server::{Release, release};
use tacho_tests::recorded::{self, Line};

#[test]
fn a_server_that_upgrades_its_tables_records_from_its_start() {
    let place = LogAndArenas::new("upgrade");
    let (mut server, mut root) = place.start(&[]);
    root.query_drop("DO 'before'").expect("an answer");
    drop(root);
    server.stop().expect("stopping");

    // All that a newer release does, as if its tables were older ones.
    server.add_option("upgrade=FORCE");
    server.restart().expect("a server that upgrades");
    let log = server.error_log();
    for event in ["started", "completed"] {
        let says_so = |line: &str| line.contains("Server upgrade from") && line.contains(event);
        assert_eq!(log.lines().filter(|line| says_so(line)).count(), 1, "{event}: {log}");
    }
    let mut root = server.connect().expect("a connection");
    root.query_drop("DO 'after'").expect("an answer");
    drop(root);
    let lines = place.end(&mut server);
    let count = |field: &str, value: &str| {
        lines.iter().filter(|line| recorded::text(line, field) == Some(value)).count()
    };
    assert_eq!((count("event", "start"), count("event", "stop")), (2, 2));
    assert_eq!(count("event", "lost"), 0);
    assert_eq!((count("sql", "DO 'before'"), count("sql", "DO 'after'")), (1, 1));
    // The server loads plugins before it upgrades its tables, and components after that.
    let of_upgrade = |line: &&Line| {
        recorded::text(line, "sql").is_some_and(|sql| sql.starts_with("CREATE TABLE IF NOT EXISTS"))
            && recorded::text(line, "outcome") == Some("ok")
    };
    let sees_it = lines.iter().filter(of_upgrade).count() > 10;
    assert_eq!(sees_it, release() == Release::Mysql80);
    // Every recorded statement has its end.
    let of_sessions: Vec<&Line> = lines.iter().filter(|line| line.contains_key("conn")).collect();
    assert_eq!(recorded::problems(&of_sessions), [""; 0]);
    assert_eq!(place.arena_count(), 0);
    server.assert_clean_log(&[]);
}
