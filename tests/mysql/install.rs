//! Zone: outside. The guides' instructions for installing on MySQL: `make install`, the server's
//! name in the log, the log outside the data directory, a server that is read-only.
//! `scripts/test-release.sh` runs them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use tacho_chain::verify::LogState;
use tacho_tests::client::{Conn, Queryable};
use tacho_tests::mysql_place::LogAndArenas;
use tacho_tests::mysql_rewriting::{self, LOAD};
use tacho_tests::mysql_server::{
    MySql, Release, has_plugin, install, installation, library, library_name, named, release,
    uninstall,
};
use tacho_tests::recorded::{self, Line};
use tacho_tests::{program, sealed, source_root, wait};

/// `ER_SCHEMA_DIR_EXISTS`, `ER_OPTION_PREVENTS_STATEMENT`.
const DIRECTORY_EXISTS: u16 = 3678;
const PREVENTED: u16 = 1290;
/// `ER_PLUGIN_CANNOT_BE_UNINSTALLED`, `ER_SPECIFIC_ACCESS_DENIED_ERROR`, `ER_INVALID_JSON_DATA`.
const NOT_UNINSTALLED: u16 = 1883;
const DENIED: u16 = 1227;
const INVALID_JSON: u16 = 3069;
/// Of a server that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const ALL_CLASSES: &str = "loose-tacho.event_classes=ALL";

fn code<T>(answer: mysql::Result<T>) -> u16 {
    match answer {
        Err(mysql::Error::MySqlError(error)) => error.code,
        Err(other) => panic!("{other}"),
        Ok(_) => 0,
    }
}

fn count(lines: &[Line], field: &str, value: &str) -> usize {
    lines.iter().filter(|line| recorded::text(line, field) == Some(value)).count()
}

/// When it is installed, and when the server loads it at start.
#[test]
fn the_start_line_names_the_server_as_it_names_itself() {
    let place = LogAndArenas::new("version");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    let version: String = root.query_first("SELECT VERSION()").expect("an answer").expect("a row");
    root.query_drop(install()).expect("installing");
    drop(root);
    server.stop().expect("stopping");
    server.restart().expect("restarting");
    let lines = place.end(&mut server);
    let is_start = |line: &&Line| recorded::text(line, "event") == Some("start");
    let names: Vec<&str> = lines
        .iter()
        .filter(is_start)
        .map(|line| recorded::text(line, "server").expect("a server"))
        .collect();
    let name = format!("MySQL {version}");
    assert_eq!(names, [&name, &name]);
    server.assert_clean_log(&[]);
}

/// The default directory is where the database of the rules would be: docs/guide/rewrite.md.
#[test]
fn a_log_that_violates_the_rules_continues_elsewhere() {
    let place = LogAndArenas::new("move");
    let arenas = place.path().join("arenas");
    let arena_directory = named(&format!("loose-tacho.arena-directory={}", arenas.display()));
    let mut server = MySql::builder().option(arena_directory).start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop(install()).expect("installing");
    root.query_drop("DO 'before'").expect("an answer");
    assert_eq!(code(root.query_drop("CREATE DATABASE tacho")), DIRECTORY_EXISTS);
    drop(root);

    // As in the guide.
    server.stop().expect("stopping");
    fs::rename(server.data_directory().join("tacho"), place.log()).expect("moving the log");
    server.add_option(&named(&format!("loose-tacho.directory={}", place.log().display())));
    server.restart().expect("restarting");
    mysql_rewriting::run_script(&server);
    let mut root = server.connect().expect("a connection");
    mysql_rewriting::add(&mut root, "SELECT ?", None, "SELECT ? + 1");
    root.query_drop(LOAD).expect("right rules");
    assert_eq!(root.query_first("SELECT 41").expect("an answer"), Some(42));
    root.query_drop("DO 'after'").expect("an answer");
    // That takes the table away, and not the log.
    root.query_drop("DROP DATABASE tacho").expect("an answer");
    drop(root);
    server.stop().expect("stopping");

    // One log, whole and under one seal.
    let lines = recorded::read(&place.log()).expect("a readable log");
    assert_eq!((count(&lines, "event", "start"), count(&lines, "event", "stop")), (2, 2));
    assert_eq!((count(&lines, "sql", "DO 'before'"), count(&lines, "sql", "DO 'after'")), (1, 1));
    assert_eq!((count(&lines, "event", "lost"), place.arena_count()), (0, 0));
    let key = lines.iter().find_map(|line| recorded::text(line, "signing_key")).expect("a key");
    let report = sealed::check(&place.log(), &key.parse().expect("a public key"));
    sealed::assert_state(&report, LogState::Ok);
    assert!(!server.data_directory().join("tacho").exists());
    server.assert_clean_log(&[]);
}

/// The server continues, when it is asked to install it, and when it starts with it; and once the
/// obstacle is removed, everything is recorded.
#[test]
fn a_log_that_cannot_be_begun_costs_the_recording_and_not_the_server() {
    let place = LogAndArenas::new("no-log");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    fs::write(place.log(), "in the way").expect("a file");
    for _ in 0..2 {
        root.query_drop(install()).expect_err("there is no directory");
        root.query_drop("DO 1").expect("an answer");
    }
    fs::remove_file(place.log()).expect("removing");
    root.query_drop(install()).expect("installing");
    root.query_drop("DO 'recorded'").expect("an answer");
    drop(root);
    server.stop().expect("stopping");

    let aside = place.path().join("aside");
    fs::rename(place.log(), &aside).expect("moving the log");
    fs::write(place.log(), "in the way").expect("a file");
    server.restart().expect("restarting");
    let mut root = server.connect().expect("a connection");
    root.query_drop("DO 'not recorded'").expect("an answer");
    drop(root);
    server.stop().expect("stopping");
    assert!(server.error_log().contains("recording cannot start: "));

    fs::remove_file(place.log()).expect("removing");
    fs::rename(&aside, place.log()).expect("moving the log");
    server.restart().expect("restarting");
    let mut root = server.connect().expect("a connection");
    root.query_drop("DO 'again'").expect("an answer");
    drop(root);
    let lines = place.end(&mut server);
    let texts = ["DO 'recorded'", "DO 'not recorded'", "DO 'again'"];
    assert_eq!(texts.map(|sql| count(&lines, "sql", sql)), [1, 0, 1]);
    assert_eq!((count(&lines, "event", "lost"), place.arena_count()), (0, 0));
}

/// Installing writes to a table of the server: docs/guide/install.md.
#[test]
fn a_read_only_server_neither_installs_nor_uninstalls() {
    let place = LogAndArenas::new("readonly");
    let mut server = place.builder().start().expect("a server");
    let mut root = server.connect().expect("a connection");
    root.query_drop("SET GLOBAL super_read_only = ON").expect("an answer");
    assert_eq!(code(root.query_drop(install())), PREVENTED);
    root.query_drop("DO 'not recorded'").expect("an answer");
    assert!(!place.log().exists(), "nothing has begun");

    root.query_drop("SET GLOBAL super_read_only = OFF").expect("an answer");
    root.query_drop(install()).expect("installing");
    root.query_drop("SET GLOBAL super_read_only = ON").expect("an answer");
    assert_eq!(code(root.query_drop(uninstall())), PREVENTED);
    root.query_drop("DO 'recorded still'").expect("an answer");
    drop(root);
    // And it is there again after a restart of a server that is read-only from the beginning.
    server.stop().expect("stopping");
    server.add_option("super-read-only=ON");
    server.restart().expect("restarting");
    let mut root = server.connect().expect("a connection");
    root.query_drop("DO 'recorded again'").expect("an answer");
    drop(root);
    let lines = place.end(&mut server);
    let counts = ["DO 'not recorded'", "DO 'recorded still'", "DO 'recorded again'"]
        .map(|sql| count(&lines, "sql", sql));
    assert_eq!(counts, [0, 1, 1]);
    let refused: Vec<u64> = lines
        .iter()
        .filter(|line| recorded::text(line, "sql") == Some(uninstall()))
        .filter_map(|line| recorded::number(line, "errno"))
        .collect();
    assert_eq!(refused, [u64::from(PREVENTED)]);
    server.assert_clean_log(&[]);
}

/// The error number of a statement in a separate session, 0 if there is none.
///
/// # Panics
/// There is no answer.
fn answer(server: &mut MySql, user: &str, statement: &str) -> u16 {
    let options = mysql::OptsBuilder::new()
        .socket(server.socket().to_str())
        .user(Some(user))
        .prefer_socket(false)
        .read_timeout(Some(PATIENCE));
    let result = Conn::new(options).and_then(|mut conn| conn.query_drop(statement));
    if !matches!(result, Ok(()) | Err(mysql::Error::MySqlError(_))) {
        // It would not stop in the orderly way.
        server.kill9().expect("a server");
    }
    code(result)
}

fn wait_until_gone(server: &MySql) {
    let mut root = server.connect().expect("a connection");
    wait::until("it is gone", || !has_plugin(&mut root));
}

/// A server where we were installed, have executed this, and were uninstalled.
fn start_after(place: &LogAndArenas, statement: &str) -> MySql {
    let mut server = place.builder().read_persisted().start().expect("a server");
    let statements = [install(), &named(statement), uninstall()];
    for statement in statements {
        assert_eq!(answer(&mut server, "root", statement), 0, "{statement}");
    }
    wait_until_gone(&server);
    server
}

/// INSTALL PLUGIN of 8.0 sets persisted settings while it holds its list of plugins, and must not
/// look up subscribers of events then.
#[test]
fn persisted_settings_are_set_by_the_next_install() {
    let place = LogAndArenas::new("persisted");
    let mut server = start_after(&place, "SET PERSIST tacho.redact = 'LITERALS'");
    server.add_option(&named(ALL_CLASSES));
    server.restart().expect("restarting");
    assert_eq!(answer(&mut server, "root", install()), 0);
    let mut root = server.connect().expect("a connection");
    let redact: Option<String> =
        root.query_first(named("SELECT @@GLOBAL.tacho.redact")).expect("an answer");
    assert_eq!(redact.as_deref(), Some("LITERALS"));
    root.query_drop("SET GLOBAL max_connections = 77").expect("an answer");
    drop(root);
    let waits = "GLOBAL_VARIABLE of tacho_event_classes begins when the server starts anew";
    assert_eq!(server.error_log().contains(waits), release() == Release::Mysql80);

    server.restart().expect("restarting");
    assert_eq!(answer(&mut server, "root", "SET GLOBAL max_connections = 78"), 0);
    let told = count(&place.end(&mut server), "object", "max_connections");
    assert_eq!(told, if release() == Release::Mysql80 { 1 } else { 2 });
}

/// An error is an event, too.
#[test]
fn persisted_settings_that_cannot_be_set_have_an_error() {
    let place = LogAndArenas::new("persisted-wrong");
    let filter = place.path().join("filter.json");
    fs::write(&filter, r#"{"rules":[]}"#).expect("a file");
    let persist = format!("SET PERSIST tacho.filter_file = '{}'", filter.display());
    let mut server = start_after(&place, &persist);
    let grant = "GRANT INSERT ON mysql.* TO installer";
    for statement in ["CREATE USER installer", grant] {
        assert_eq!(answer(&mut server, "root", statement), 0);
    }
    fs::remove_file(&filter).expect("removing");
    let codes = ["installer", "root"].map(|user| {
        let code = answer(&mut server, user, install());
        // 8.0 has installed it all the same.
        answer(&mut server, "root", uninstall());
        wait_until_gone(&server);
        code
    });
    if release() == Release::Mysql80 {
        assert_eq!(codes, [DENIED, INVALID_JSON]);
    }
    assert_eq!(answer(&mut server, "root", "DO 1"), 0);
}

/// A server that cannot be fetched is left out of a run, which lists it, unless all are required.
#[test]
fn a_server_that_cannot_be_fetched_is_listed_or_fails_the_run() {
    let place = LogAndArenas::new("unfetched");
    let release = "mysql-9.7";
    for (all_servers, code) in [("1", 1), ("", 0)] {
        let list = place.path().join(format!("left-out-{code}"));
        // A cache without a server, and no address that would have one.
        let output = Command::new(source_root().join("scripts/test-release.sh"))
            .arg(release)
            .env("XDG_CACHE_HOME", place.path())
            .env("DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
            .env("TACHO_LEFT_OUT", &list)
            .env("TACHO_ALL_SERVERS", all_servers)
            .output()
            .expect("running it");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let shown = Command::new(source_root().join("scripts/left-out.sh"))
            .arg("show")
            .env("TACHO_LEFT_OUT", &list)
            .output()
            .expect("running it");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("NOT TESTED"), "{shown}");
        assert!(shown.contains(&format!("{release}: the server cannot be fetched")), "{shown}");
    }
}

/// `scripts/install.sh`, with a server of this machine that reports its plugin directory.
fn run_install(place: &Path, server: &str) -> Output {
    let path = format!("{}:{}", place.display(), std::env::var("PATH").expect("a PATH"));
    Command::new(source_root().join("scripts/install.sh"))
        .args(["install", server])
        .env("PREFIX", place)
        .env("PATH", path)
        .env_remove("DESTDIR")
        .env_remove("PLUGIN_DIR")
        .output()
        .expect("running it")
}

#[test]
fn make_install_installs_the_build_for_the_server() {
    let place = LogAndArenas::new("makeinstall");
    let plugins = place.path().join("plugins");
    fs::create_dir(&plugins).expect("a directory");
    let daemon = installation().program("mysqld").expect("a server");
    let fake = place.path().join("mysqld");
    let script = format!(
        "#!/bin/sh\nexec '{}' --no-defaults --basedir='{}' --plugin-dir='{}' \"$@\"\n",
        daemon.display(),
        installation().usr().display(),
        plugins.display()
    );
    fs::write(&fake, script).expect("a script");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("its mode");
    let (ours, other) = match release() {
        Release::Mysql97 => ("mysql-9.7", "mysql-8.0"),
        Release::Mysql80 => ("mysql-8.0", "mysql-9.7"),
    };

    // A build for another release would not be loaded.
    let refused = run_install(place.path(), other);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(fs::read_dir(&plugins).expect("a directory").count(), 0);

    let events = "component_reference_cache.so";
    if release() == Release::Mysql97 {
        let refused = run_install(place.path(), ours);
        assert!(String::from_utf8_lossy(&refused.stderr).contains(events), "{refused:?}");
        fs::write(plugins.join(events), "").expect("a file");
    }
    let output = run_install(place.path(), ours);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(install()), "{output:?}");
    // Stripped: scripts/test-install.sh looks into them.
    let bytes = |path: &Path| fs::metadata(path).expect("a file").len();
    assert!(bytes(&plugins.join(library_name())) < bytes(&library()));
    let command = place.path().join("bin/tacho");
    assert!(bytes(&command) < bytes(&program("tacho")));
}

mod v80 {
    use super::*;

    /// Sessions that have the plugin need not look for it: so none must be without.
    #[test]
    fn other_plugins_are_installed_while_variables_are_reported() {
        let place = LogAndArenas::new("persisted-other");
        let builder = place.builder().library("validate_password.so").option(named(ALL_CLASSES));
        let mut server = builder.read_persisted().start().expect("a server");
        let other = "INSTALL PLUGIN validate_password SONAME 'validate_password.so'";
        assert_eq!(answer(&mut server, "root", install()), 0);
        for statement in [other, "SET PERSIST validate_password_length = 9"] {
            assert_eq!(answer(&mut server, "root", statement), 0);
        }
        for is_restarted in [false, true] {
            if is_restarted {
                server.restart().expect("restarting");
            }
            assert_eq!(answer(&mut server, "root", uninstall()), NOT_UNINSTALLED);
            for statement in ["UNINSTALL PLUGIN validate_password", other, "DO 'recorded'"] {
                assert_eq!(answer(&mut server, "root", statement), 0);
            }
        }
        assert!(server.error_log().contains("UNINSTALL PLUGIN is refused: with GLOBAL_VARIABLE"));
        let lines = place.end(&mut server);
        assert_eq!(count(&lines, "sql", "DO 'recorded'"), 2);
        // Set by hand, by the server's start, and by each INSTALL.
        assert_eq!(count(&lines, "object", "validate_password_length"), 4);
    }
}
