//! Zone: outside. The recipes of `docs/guide/filter.md`, verbatim: what each must record, and what
//! it excludes. On each release: `scripts/test-release.sh`.

use std::collections::BTreeMap;

use tacho_tests::client::{self, Queryable as _};
use tacho_tests::recorded::{self, text};
use tacho_tests::recording::Recording;

const GUIDE: &str = include_str!("../../docs/guide/filter.md");

const SETUP: &[&str] = &[
    "CREATE DATABASE shop",
    "CREATE DATABASE payroll",
    "CREATE TABLE shop.t (id INT PRIMARY KEY)",
    "CREATE TABLE shop.cache_1 (id INT PRIMARY KEY)",
    "CREATE TABLE shop.customers (id INT PRIMARY KEY)",
    "CREATE TABLE payroll.x (id INT PRIMARY KEY)",
    "CREATE USER app_1@localhost",
    "CREATE USER dba_1@localhost",
    "CREATE USER proxy_monitor@localhost",
    "GRANT ALL ON *.* TO app_1@localhost, dba_1@localhost, proxy_monitor@localhost",
];

/// Statements that every recipe must record, unless it is about one account: about accounts,
/// privileges, and the server.
const ALWAYS: &[&str] = &[
    "CREATE USER u@localhost",
    "ALTER USER u@localhost IDENTIFIED BY 'xX1!xxxxxxxx'",
    "SET PASSWORD FOR u@localhost = ''",
    "GRANT SELECT ON shop.* TO u@localhost",
    "REVOKE SELECT ON shop.* FROM u@localhost",
    "DROP USER u@localhost",
    "SET GLOBAL max_connections = 200",
    "FLUSH PRIVILEGES",
    "INSTALL PLUGIN nosuch SONAME 'nosuch.so'",
    "UNINSTALL PLUGIN nosuch",
    "KILL 99999999",
    "CREATE TABLE shop.made (id INT)",
    "DROP TABLE shop.made",
    "INSERT INTO payroll.x VALUES (1)",
    "DELETE FROM payroll.x",
    "SELECT nocolumn FROM shop.t",
];

/// User, statement, and whether it must be recorded.
type Step = (&'static str, &'static str, bool);

/// A recipe by the text above it in the guide, and the executed statements.
const RECIPES: &[(&str, &[Step])] = &[
    (
        "Only what changes something",
        &[
            ("app_1", "INSERT INTO shop.t VALUES (1)", true),
            ("app_1", "DELETE FROM shop.t", true),
            ("app_1", "SELECT COUNT(*) FROM shop.t", false),
            ("app_1", "COMMIT", false),
        ],
    ),
    (
        "All but the health checks of a proxy",
        // The rule also checks its address.
        &[("proxy_monitor", "SELECT 1", true), ("app_1", "SELECT 2", true)],
    ),
    (
        "Everything about some tables",
        &[
            ("app_1", "SELECT id FROM payroll.x", true),
            ("app_1", "SELECT id FROM shop.customers", true),
            ("app_1", "SELECT id FROM shop.t", false),
        ],
    ),
    (
        "Leave out statements that touch only a cache",
        &[
            ("app_1", "SELECT id FROM shop.cache_1", false),
            ("app_1", "SELECT id FROM shop.t", true),
        ],
    ),
    (
        "All accounts except people",
        &[("dba_1", "SELECT 3 FROM shop.t", true), ("app_1", "SELECT 4 FROM shop.t", false)],
    ),
];

/// The JSON after this text of the guide.
fn recipe(title: &str) -> &'static str {
    let (_, behind) = GUIDE.split_once(title).unwrap_or_else(|| panic!("no recipe {title}"));
    let (_, json) = behind.split_once("```json\n").expect("a recipe");
    json.split_once("```").expect("its end").0
}

#[test]
fn the_recipes_record_the_required_statements() {
    let mut server = Recording::builder().option("tacho-tables=ON").start().expect("a server");
    let mut root = server.connect().expect("a session");
    for sql in SETUP {
        root.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for (number, (title, statements)) in RECIPES.iter().enumerate() {
        server.set(&format!("tacho_filter = '{}'", recipe(title)));
        for (step, sql) in ALWAYS.iter().enumerate() {
            // Some fail. After a password, the rest of the text is not recorded.
            let _ = root.query_drop(format!("/* always {number}-{step} */ {sql}"));
        }
        let mut sessions = BTreeMap::new();
        for (step, (user, sql, _)) in statements.iter().enumerate() {
            let conn = sessions.entry(*user).or_insert_with(|| {
                client::connect(server.socket(), user, "shop").expect("a session")
            });
            conn.query_drop(format!("{sql} /* step {number}-{step} */")).expect(sql);
        }
        server.set("tacho_filter = ''");
    }
    drop(root);
    server.stop().expect("an orderly end");
    let lines = recorded::read(&server.log_directory()).expect("the log");
    let texts: Vec<&str> = lines.iter().filter_map(|line| text(line, "sql")).collect();
    let has = |mark: &str| texts.iter().any(|text| text.contains(mark));
    let mut wrong = Vec::new();
    for (number, (title, statements)) in RECIPES.iter().enumerate() {
        for (step, sql) in ALWAYS.iter().enumerate() {
            if !has(&format!("/* always {number}-{step} */")) {
                wrong.push(format!("{title}: not recorded: {sql}"));
            }
        }
        for (step, (_, sql, expected)) in statements.iter().enumerate() {
            if has(&format!("/* step {number}-{step} */")) != *expected {
                wrong.push(format!("{title}: recorded is not {expected}: {sql}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A filter must not exclude these by mistake: the error log warns, but not for any of the recipes.
#[test]
fn a_filter_that_leaves_out_accounts_is_warned_of() {
    const WARNING: &str = "can leave out statements about accounts";
    let mut server = Recording::builder().option("tacho-tables=ON").start().expect("a server");
    let warned = |server: &Recording| server.error_log().matches(WARNING).count();
    for (title, _) in RECIPES {
        server.set(&format!("tacho_filter = '{}'", recipe(title)));
        assert_eq!(warned(&server), 0, "{title}");
    }
    server.set(
        r#"tacho_filter = '{"default": "skip", "rules": [{"class": "ddl", "action": "record"}]}'"#,
    );
    assert_eq!(warned(&server), 1);
    server.set("tacho_filter = ''");
    server.stop().expect("an orderly end");
}
