//! A store of another release.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::Value;

use crate::HUB;
use crate::export::{shipped, wait_for_records};
use crate::hub::Hub;

/// Makes the store one of version 1, which had no statistics beside its segments.
fn downgrade(store: &Path) {
    let catalogue = Connection::open(store.join("catalogue.sqlite")).unwrap();
    catalogue
        .execute_batch(
            "ALTER TABLE segment DROP COLUMN minutes_bytes;
             ALTER TABLE segment DROP COLUMN hours_bytes;
             PRAGMA user_version = 1;",
        )
        .unwrap();
    for entry in std::fs::read_dir(store.join("segments")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".minutes.parquet") || name.ends_with(".hours.parquet") {
            std::fs::remove_file(path).unwrap();
        }
    }
}

fn version(store: &Path) -> i64 {
    let catalogue = Connection::open(store.join("catalogue.sqlite")).unwrap();
    catalogue.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn records(hub: &Hub) -> Value {
    let token = hub.token(&["--role", "auditor"]);
    let answer = hub.get("/api/v1/records?server=db1&order=asc&limit=1000", &token);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str::<Value>(body).unwrap()["records"].take()
}

#[test]
fn a_store_of_an_earlier_release_is_built_again() {
    let (mut hub, _log) = shipped();
    let before = records(&hub);
    assert_eq!(hub.stop(), Some(0));
    let store = hub.data.path().join("store");
    let current = version(&store);
    downgrade(&store);

    let beside = hub.command("sql", &["SELECT count(*) FROM records"]);
    let said = String::from_utf8_lossy(&beside.stderr).into_owned();
    assert!(!beside.status.success() && said.contains("start the hub"), "{said}");
    assert_eq!(version(&store), 1, "a reader changes nothing");

    let messages = hub.data.path().join("messages");
    let mut command = Command::new(HUB);
    command.stderr(File::create(&messages).unwrap());
    hub.spawn_as(command, &[]);
    wait_for_records(&hub, 18);
    assert_eq!(records(&hub), before);
    assert_eq!(version(&store), current);
    assert_eq!(hub.stop(), Some(0));
    let said = std::fs::read_to_string(messages).unwrap();
    let reason = format!("it has version 1, this release has version {current}");
    for text in [&*format!("built again from the replica: {reason}"), "the index is complete"] {
        assert!(said.contains(text), "{said}");
    }
}

#[test]
fn a_store_of_a_later_release_stops_the_start_and_stays() {
    let (mut hub, _log) = shipped();
    let before = records(&hub);
    assert_eq!(hub.stop(), Some(0));
    let store = hub.data.path().join("store");
    let later = version(&store) + 1;
    Connection::open(store.join("catalogue.sqlite"))
        .unwrap()
        .pragma_update(None, "user_version", later)
        .unwrap();
    let output = hub.command("serve", &["--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for text in [&*format!("has version {later}"), "use a newer tacho-hub", "tacho-hub reindex"] {
        assert!(said.contains(text), "{said}");
    }
    assert_eq!(version(&store), later, "it is left as it is");

    let output = hub.command("reindex", &[]);
    assert!(output.status.success(), "{output:?}");
    hub.spawn(&[]);
    wait_for_records(&hub, 18);
    assert_eq!(records(&hub), before);
}
