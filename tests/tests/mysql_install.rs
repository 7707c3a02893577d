//! Zone: outside. What the guides say of installing on MySQL. `scripts/test-mysql.sh` runs them.

use tacho_tests::client::Queryable;
use tacho_tests::mysql_place::Place;
use tacho_tests::mysql_server::install;
use tacho_tests::recorded::{self, Line};

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
