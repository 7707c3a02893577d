//! Alerts in the database, and the conditions that raise them.

use super::conditions::{Moment, of_disk, of_incident};
use super::*;
use crate::audit::Entry;
use crate::clock;
use crate::landing::shippers::Shippers;
use crate::landing::{Incident, OriginView};

fn database() -> (tempfile::TempDir, Database) {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(&directory.path().join("hub.sqlite")).unwrap();
    (directory, database)
}

fn some(rule: Rule, subject: &str, count: Option<u64>) -> Raise {
    let server = Some("db1".parse().unwrap());
    let (subject, message) = (subject.to_owned(), "text".to_owned());
    Raise { rule, server, subject, message, examples: vec!["one".to_owned()], count }
}

fn store(database: &Database, new: &Raise, now_us: i64) {
    database.write(|transaction| raise(transaction, new, now_us)).unwrap();
}

#[test]
fn repetitions_are_one_alert_until_it_is_closed() {
    let (_directory, database) = database();
    for now_us in 1..=3 {
        store(&database, &some(Rule::Contradiction, "a", None), now_us);
    }
    store(&database, &some(Rule::Contradiction, "b", None), 4);
    store(&database, &some(Rule::Lost, "generation 1", Some(7)), 5);
    let all = list(&database, Some("open")).unwrap();
    let counts: Vec<u64> = all.iter().map(|alert| alert.count).collect();
    assert_eq!(counts, [7, 1, 3]);
    assert_eq!(all[2].first_ts, "1970-01-01T00:00:00.000001Z");
    assert_eq!(all[2].last_ts, "1970-01-01T00:00:00.000003Z");
    acknowledge(&database, all[2].id, "ann", "looked at it", &Entry::default()).unwrap();
    let known = find(&database, all[2].id).unwrap().unwrap();
    assert_eq!(
        (known.state.as_str(), known.note.as_deref()),
        ("acknowledged", Some("looked at it"))
    );
    store(&database, &some(Rule::Contradiction, "a", None), 6);
    assert_eq!(list(&database, None).unwrap().len(), 3);
}

#[test]
fn a_condition_that_is_over_closes_its_alert_and_what_happened_stays() {
    let (_directory, database) = database();
    let silent = some(Rule::ShipperSilent, "", Some(1));
    store(&database, &silent, 1);
    store(&database, &some(Rule::Fork, "generation 2", None), 2);
    let close = |raised: &[Raise]| {
        database.write(|transaction| close_others(transaction, raised, 9)).unwrap();
    };
    close(std::slice::from_ref(&silent));
    assert_eq!(list(&database, Some("open")).unwrap().len(), 2);
    close(&[]);
    let open = list(&database, Some("open")).unwrap();
    assert_eq!((open.len(), open[0].rule.as_str()), (1, "fork"));
    // It comes again as another alert.
    store(&database, &silent, 10);
    assert_eq!(list(&database, None).unwrap().len(), 3);
}

#[test]
fn more_findings_in_a_broken_seal_are_another_alert() {
    let (_directory, database) = database();
    let broken = |count| some(Rule::SealBroken, "generation 1", Some(count));
    let open = || list(&database, Some("open")).unwrap();
    store(&database, &broken(2), 1);
    store(&database, &broken(3), 2);
    let first = open()[0].id;
    acknowledge(&database, first, "ann", "seen", &Entry::default()).unwrap();
    for count in [3, 2, 2] {
        store(&database, &broken(count), 3);
        assert_eq!(open().len(), 0);
    }
    store(&database, &broken(3), 4);
    let (open, first) = (open(), find(&database, first).unwrap().unwrap());
    assert_eq!((open[0].count, first.count), (3, 2));
    assert_eq!((first.state.as_str(), first.note.as_deref()), ("closed", Some("seen")));
}

fn rules(shippers: &Shippers, now_us: i64) -> Vec<&'static str> {
    let view = OriginView { generation: 1, files: 1, bytes: 1, ..OriginView::default() };
    let origin = "db1".parse().unwrap();
    let moment = Moment {
        origin: &origin,
        view: &view,
        shippers,
        seal: None,
        unsealed_since_us: None,
        started_us: 0,
        now: clock::Moment::at(now_us),
    };
    moment.conditions().iter().map(|raise| raise.rule.word()).collect()
}

#[test]
fn silence_is_an_alert() {
    let mut shippers = Shippers::default();
    assert_eq!(rules(&shippers, 59_000_000), [] as [&str; 0]);
    assert_eq!(rules(&shippers, 60_000_000), ["shipper_silent"]);
    let heartbeat = |text: &str| serde_json::from_str(text).unwrap();
    let good = r#"{"time_us":1000000,"version":"1","host":"h","next_s":10,"recorder":true}"#;
    shippers.heard(None, heartbeat(good), clock::Moment::at(1_000_000));
    assert_eq!(rules(&shippers, 30_000_000), [] as [&str; 0]);
    assert_eq!(rules(&shippers, 31_000_000), ["shipper_silent"]);
    let bad = r#"{"time_us":90000000,"version":"1","host":"h","next_s":10,"recorder":false,
        "problems":[{"code":"encrypted","message":"no key"}]}"#;
    shippers.heard(None, heartbeat(bad), clock::Moment::at(40_000_000));
    let found = ["recorder_stopped", "clock_skew", "shipper_problem"];
    assert_eq!(rules(&shippers, 41_000_000), found);
    let ended = r#"{"time_us":1,"version":"1","host":"h","next_s":0}"#;
    shippers.heard(None, heartbeat(ended), clock::Moment::at(42_000_000));
    assert_eq!(rules(&shippers, 43_000_000), ["shipper_stopped"]);
}

#[test]
fn a_disk_is_full_before_it_is() {
    let rule = |free: u64| of_disk(free, 1000).map(|raise| raise.rule.word());
    assert_eq!(rule(999), Some("disk_full"));
    assert_eq!(rule(1999), Some("disk_low"));
    assert_eq!(rule(2000), None);
}

/// A checkpoint as in a sidecar: only its text matters here.
fn note(file: &str, offset: u64) -> String {
    use base64::Engine as _;
    let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let (zero, signature) = (base64(&[0; 32]), base64(&[0; 68]));
    let origin = "tachograph/0123456789abcdef";
    format!(
        "{origin}\n5\n{zero}\ntime 1\nfile {file}\noffset {offset}\nreason rotate\n\n\
         \u{2014} {origin} {signature}\n"
    )
}

#[test]
fn a_change_below_a_checkpoint_is_no_power_failure() {
    let (one, two) = ("audit-20261121T100000Z-000001.jsonl", "audit-20261121T110000Z-000002.jsonl");
    let rule = |file: &str, offset: u64, checkpoint: Option<String>| {
        let json = serde_json::json!(
            {"after": 1, "reason": "different", "file": file, "offset": offset});
        let request = serde_json::from_value(json).unwrap();
        let origin = "db1".parse().unwrap();
        of_incident(&Incident::Fork { origin, request, generation: 2, checkpoint }).rule
    };
    assert_eq!(rule(one, 100, Some(note(two, 50))), Rule::Tampered);
    assert_eq!(rule(two, 50, Some(note(two, 50))), Rule::Tampered);
    assert_eq!(rule(two, 51, Some(note(two, 50))), Rule::Fork);
    assert_eq!(rule(one, 100, None), Rule::Fork);
}
