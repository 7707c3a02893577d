//! Zone: outside. What the guides say of installing on MySQL. `scripts/test-mysql.sh` runs them.

use std::process::Command;

use tacho_tests::client::Queryable;
use tacho_tests::mysql_place::Place;
use tacho_tests::mysql_server::install;
use tacho_tests::recorded::{self, Line};
use tacho_tests::source_root;

/// When it is installed, and when the server loads it by itself.
#[test]
#[ignore = "needs MySQL: scripts/test-mysql.sh"]
fn the_start_line_names_the_server_as_it_names_itself() {
    let place = Place::new("version");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    let version: String = root.query_first("SELECT VERSION()").expect("an answer").expect("a row");
    root.query_drop(install()).expect("installing");
    drop(root);
    server.stop().expect("stopping");
    server.restart().expect("restarting");
    server.stop().expect("stopping");
    let lines = recorded::read(&place.log()).expect("a readable log");
    let is_start = |line: &&Line| recorded::text(line, "event") == Some("start");
    let names: Vec<&str> = lines
        .iter()
        .filter(is_start)
        .map(|line| recorded::text(line, "server").expect("a server"))
        .collect();
    let name = format!("MySQL {version}");
    assert_eq!(names, [&name, &name]);
    server.assert_clean_log(&[]);
    drop(server);
    place.remove();
}

/// A run of the tests that has tested nothing says so.
#[test]
fn without_a_mysql_its_tests_fail_unless_they_may_be_left_out() {
    let place = Place::new("optional");
    // A cache without a server, and nobody to fetch it from.
    let run = |optional: &str| {
        Command::new(source_root().join("scripts/test-mysql.sh"))
            .arg("mysql-9.7")
            .env("XDG_CACHE_HOME", place.path())
            .env("DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
            .env("TACHO_MYSQL_OPTIONAL", optional)
            .output()
            .expect("running it")
    };
    for (optional, code) in [("", 1), ("1", 0)] {
        let output = run(optional);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("THE TESTS WITH mysql-9.7 WERE NOT RUN"), "{told}");
    }
    place.remove();
}
