//! Stores of other releases.

use tacho_store::{Reader, Store};

use crate::{Hub, lines, start};

#[test]
fn a_store_of_a_later_release_is_left_as_it_is() {
    let hub = Hub::new();
    {
        let store = hub.open();
        let indexer = start(&store);
        hub.append(&indexer, "db1", 1, lines(1..=9).as_bytes());
        indexer.flush();
    }
    let path = hub.store_dir().join("catalogue.sqlite");
    let set = |version: i64| {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
    };
    let current = tacho_store::FORMAT;
    set(current + 1);
    let told = format!("has version {}, this release knows {current}", current + 1);
    let Err(error) = Store::open(&hub.store_dir()) else { panic!("it was opened") };
    assert!(error.to_string().contains(&told), "{error}");
    let Err(error) = Reader::snapshot(&hub.store_dir()) else { panic!("it was read") };
    assert!(error.to_string().contains(&told), "{error}");
    set(current);
    let store = hub.open();
    assert_eq!(store.rebuilt(), None);
    assert_eq!(store.origins()["db1"].records, 9);
}
