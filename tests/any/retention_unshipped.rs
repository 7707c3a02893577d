//! `tacho_retention_unshipped` on a real server: closed files stay until the hubs in `.shipped`
//! have them. On each release: `scripts/test-release.sh`.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use tacho_logdir::shipped;
use tacho_tests::client::{Conn, Queryable as _};
use tacho_tests::log::file_names;
use tacho_tests::recording::Recording;
use tacho_tests::wait;

fn names(log: &Path) -> BTreeSet<String> {
    file_names(log, ".jsonl")
}

/// The list of a shipper, as `tacho ship` writes it.
fn ship(log: &Path, acknowledged: &str) {
    let (path, new) = (log.join(shipped::NAME), log.join(".shipped.new"));
    fs::write(&new, format!("{acknowledged} https://hub db1\n")).expect("writes");
    let owner = fs::metadata(log).expect("a directory");
    chown(&new, Some(owner.uid()), Some(owner.gid())).expect("changes the owner");
    fs::set_permissions(&new, Permissions::from_mode(shipped::MODE)).expect("changes the mode");
    fs::rename(&new, &path).expect("replaces");
}

fn load(conn: &mut Conn) {
    for number in 0..1000 {
        conn.query_drop(format!("SELECT {number}, '{}'", "x".repeat(200))).expect("an answer");
    }
}

#[test]
fn files_stay_until_the_hub_has_them() {
    let server = Recording::builder()
        .unprivileged()
        .option("secure-file-priv=")
        .option("tacho-rotate-bytes=20000")
        .option("tacho-retention-files=3")
        .start()
        .expect("a server");
    let log = server.log_directory();
    let mut conn = server.connect().expect("a connection");
    let removed = |conn: &mut Conn| server.number(conn, "Tacho_files_removed");

    // A list that SQL has made is ignored, and says so.
    let planted = log.join(shipped::NAME);
    let sql = format!("SELECT '- https://planted db1' INTO OUTFILE '{}'", planted.display());
    conn.query_drop(sql).expect("a file");
    load(&mut conn);
    wait::until("files were removed", || removed(&mut conn) > 3);
    let ignored = "it is ignored, so retention does not wait for a hub";
    wait::until("it says so", || server.error_log().contains(ignored));

    // The hub has nothing: all files stay.
    ship(&log, "-");
    load(&mut conn);
    let waits = server.product.named("is due (tacho_retention_files) and stays");
    wait::until("it says why", || server.error_log().contains(&waits));
    assert!(server.error_log().contains("is not shipped to https://hub as db1. Check"));
    assert!(server.error_log().contains(&server.product.named("tacho_retention_unshipped=REMOVE")));
    let before = removed(&mut conn);
    load(&mut conn);
    wait::until("files pile up", || names(&log).len() > 12);
    assert_eq!(removed(&mut conn), before);

    // The hub catches up: the limit holds again.
    wait::until("no more are there than may be", || {
        // The recorder may still be writing what the load has left.
        let newest = names(&log).last().expect("a file").replace(".jsonl", "");
        ship(&log, &newest);
        names(&log).len() <= 4
    });
    wait::until("they are counted", || removed(&mut conn) >= before + 8);
    let lines = |text: &str| -> usize {
        names(&log)
            .iter()
            .filter_map(|name| fs::read_to_string(log.join(name)).ok())
            .map(|content| content.matches(text).count())
            .sum()
    };
    assert_eq!(lines("not shipped to"), 0, "nothing was lost");

    // The operator decides otherwise: the log says what was lost.
    ship(&log, "-");
    server.set("tacho_retention_unshipped = 'REMOVE'");
    load(&mut conn);
    let declared = "\"new_value\":\"count, not shipped to https://hub as db1\"";
    wait::until("the log says so", || lines(declared) > 0);
    wait::until("the limit holds", || names(&log).len() <= 4);
}
