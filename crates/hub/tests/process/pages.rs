//! Pages of records: from the replica and from the index, with records of one time, and with
//! records that do not fit into an answer.

use crate::hub::Hub;
use crate::search::{BODY_LINES, FILE, Sender, line, ok, request, wait_until_indexed};

/// The replica has the lines, and the index what is left of those that it has not any more.
#[test]
fn records_are_the_same_from_the_replica_and_from_the_index() {
    let hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor"]);
    let mut sender = Sender::new(&hub, "db1");
    sender.send(&hub);
    wait_until_indexed(&hub, &auditor, std::slice::from_ref(&sender));
    let path = "/api/v1/records?server=db1&order=desc&limit=30";
    let records = || {
        let text = request(&hub, &format!("GET {path}"), &auditor, b"").expect("an answer").1;
        text.split_once(",\"scanned_ms\"").expect("records").0.to_owned()
    };
    let of_lines = records();
    assert_eq!(of_lines.matches("\"seq\":").count(), 30);
    let file = hub.replica("db1", 1).join(FILE);
    let text = std::fs::read(&file).expect("the replica");
    // Found by nothing but its place in the file.
    let changed = String::from_utf8_lossy(&text).replace("secret17", "SECRET17");
    std::fs::write(&file, changed).expect("the replica");
    assert_eq!(records(), of_lines.replace("secret17", "SECRET17"));
    std::fs::remove_file(&file).expect("the replica");
    assert_eq!(records(), of_lines);
}

/// All records of some servers, in pages of `limit`: time, server, number.
fn pages(
    hub: &Hub,
    token: &str,
    servers: &str,
    (order, limit): (&str, usize),
) -> Vec<(String, String, u64)> {
    let first = format!("/api/v1/records?{servers}&order={order}&limit={limit}");
    let (mut path, mut found) = (first.clone(), Vec::new());
    loop {
        let answer = ok(hub, &path, token);
        let records = answer["records"].as_array().unwrap();
        found.extend(records.iter().map(|record| {
            let text = |name: &str| record[name].as_str().unwrap().to_owned();
            (text("ts"), text("server"), record["seq"].as_u64().unwrap())
        }));
        let Some(cursor) = answer["next"].as_str() else { return found };
        assert_eq!(records.len(), limit, "{path}");
        path = format!("{first}&cursor={cursor}");
    }
}

#[test]
fn a_page_may_end_between_records_of_one_time() {
    let hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor"]);
    // More records of one time than a page has, and than are read beyond its end.
    let origins: Vec<&str> =
        "a b c d e f g h i j k l m n o p q r s t u v w x y".split(' ').collect();
    let mut senders: Vec<Sender> = origins.iter().map(|origin| Sender::new(&hub, origin)).collect();
    senders.iter_mut().for_each(|sender| sender.send(&hub));
    wait_until_indexed(&hub, &auditor, &senders);
    for (count, limit) in [(5, 7), (25, 7), (25, 24), (25, 51)] {
        let servers = origins[..count].iter().map(|origin| format!("server={origin}"));
        let servers = servers.collect::<Vec<_>>().join("&");
        let all = pages(&hub, &auditor, &servers, ("asc", 1_000));
        assert!(all.is_sorted());
        // Pages of seven end behind each of the five records of a time.
        assert_eq!(all.len() as u64, count as u64 * BODY_LINES);
        assert!(all.chunks(count).all(|same| same.iter().all(|it| it.0 == same[0].0)));
        assert_eq!(pages(&hub, &auditor, &servers, ("asc", limit)), all);
        let mut back = pages(&hub, &auditor, &servers, ("desc", limit));
        back.reverse();
        assert_eq!(back, all);
    }
}

/// An answer has 64 MiB at most: then it has fewer records than were asked for, and a cursor.
#[test]
fn records_that_do_not_fit_into_an_answer_are_in_the_next_one() {
    let hub = Hub::start();
    let auditor = hub.token(&["--role", "auditor"]);
    let mut sender = Sender::new(&hub, "db1");
    for seq in 1..=5 {
        let long = "x".repeat(if seq == 3 { 10 } else { 20 << 20 });
        let line = line(seq).replace("\"SELECT 'secret", &format!("\"SELECT '{long} secret"));
        (line + "\n").as_bytes().chunks(1 << 20).for_each(|part| sender.send_body(&hub, part));
        sender.seq = seq;
    }
    wait_until_indexed(&hub, &auditor, std::slice::from_ref(&sender));
    let numbers = |order: &str| {
        let first = format!("/api/v1/records?server=db1&order={order}&limit=5");
        let (mut path, mut found) = (first.clone(), Vec::new());
        loop {
            let answer = ok(&hub, &path, &auditor);
            let records = answer["records"].as_array().unwrap().iter();
            found.push(records.map(|it| it["seq"].as_u64().unwrap()).collect::<Vec<_>>());
            let Some(cursor) = answer["next"].as_str() else { return found };
            path = format!("{first}&cursor={cursor}");
        }
    };
    // By the hour of `line`: 3, then 1 and 4, then 2 and 5.
    assert_eq!(numbers("asc").concat(), [3, 1, 4, 2, 5]);
    assert_eq!(numbers("desc").concat(), [5, 2, 4, 1, 3]);
    assert!(numbers("asc").len() > 1);
    // The same from the index.
    std::fs::remove_file(hub.replica("db1", 1).join(FILE)).unwrap();
    assert_eq!(numbers("asc").concat(), [3, 1, 4, 2, 5]);
}
