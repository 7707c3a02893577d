//! Messages over time, by a clock of the test.

use super::*;
use crate::alerts::{Raise, Rule, acknowledge, close_others, deliveries, list, raise};
use crate::audit::Entry;

const TIMING: Timing = Timing { wait_us: 30, interval_us: 300, repeat_us: 10_000 };

struct Scene {
    _directory: tempfile::TempDir,
    database: Database,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("hub.sqlite")).unwrap();
        deliveries::configure(&database, &["a", "b"], 0).unwrap();
        Self { _directory: directory, database }
    }

    fn silent(server: &str) -> Raise {
        Raise {
            rule: Rule::ShipperSilent,
            server: Some(server.parse().unwrap()),
            subject: String::new(),
            message: "text".to_owned(),
            examples: Vec::new(),
            count: Some(1),
        }
    }

    fn raise(&self, new: &Raise, now_us: i64) {
        self.database.write(|transaction| raise(transaction, new, now_us)).unwrap();
    }

    fn close_all(&self, now_us: i64) {
        self.database.write(|transaction| close_others(transaction, &[], now_us)).unwrap();
    }

    /// The message that is due at a time, if there is one: server and whether it is over.
    fn message(&self, channel: &str, now_us: i64) -> Option<Vec<(String, bool)>> {
        plan(&self.database, channel, TIMING, now_us).unwrap();
        let due = deliveries::due(&self.database, channel, now_us).unwrap();
        assert!(due.len() <= 1, "{due:?}");
        let message = deliveries::load(&self.database, due.first()?.id).unwrap();
        let mut alerts: Vec<_> = message
            .alerts
            .into_iter()
            .map(|it| (it.alert.server.unwrap(), it.is_resolved))
            .collect();
        alerts.sort();
        Some(alerts)
    }

    /// The same, which its receiver accepts.
    fn accepted(&self, channel: &str, now_us: i64) -> Option<Vec<(String, bool)>> {
        let message = self.message(channel, now_us)?;
        let due = deliveries::due(&self.database, channel, now_us).unwrap();
        deliveries::sent(&self.database, due[0].id, now_us).unwrap();
        Some(message)
    }
}

fn servers(list: &[(&str, bool)]) -> Option<Vec<(String, bool)>> {
    Some(list.iter().map(|(name, is_over)| ((*name).to_owned(), *is_over)).collect())
}

#[test]
fn alerts_that_come_together_are_one_message() {
    let scene = Scene::new();
    scene.raise(&Scene::silent("db1"), 100);
    scene.raise(&Scene::silent("db2"), 120);
    assert_eq!(scene.message("a", 129), None);
    assert_eq!(scene.accepted("a", 130), servers(&[("db1", false), ("db2", false)]));
    assert_eq!(scene.message("a", 131), None);
    // A third one waits for the interval; the message has all that are open.
    scene.raise(&Scene::silent("db3"), 200);
    assert_eq!(scene.message("a", 429), None);
    let all = servers(&[("db1", false), ("db2", false), ("db3", false)]);
    assert_eq!(scene.accepted("a", 430), all);
    assert_eq!(scene.message("a", 10_429), None);
    assert_eq!(scene.accepted("a", 10_430), all);
    scene.close_all(10_431);
    assert_eq!(scene.message("a", 10_729), None);
    let over = servers(&[("db1", true), ("db2", true), ("db3", true)]);
    assert_eq!(scene.accepted("a", 10_730), over);
    assert_eq!(scene.message("a", 30_000), None);
}

#[test]
fn what_was_over_before_its_message_is_not_sent_but_what_waited_is() {
    let scene = Scene::new();
    scene.raise(&Scene::silent("db1"), 100);
    scene.close_all(129);
    assert_eq!(scene.message("a", 1_000), None);
    scene.raise(&Scene::silent("db2"), 2_000);
    assert_eq!(scene.message("a", 2_030), servers(&[("db2", false)]));
    // While the receiver is down, this message waits, and others come and go.
    scene.raise(&Scene::silent("db3"), 2_100);
    scene.close_all(2_200);
    assert_eq!(scene.accepted("a", 3_000), servers(&[("db2", false)]));
    assert_eq!(scene.accepted("a", 3_001), servers(&[("db2", true), ("db3", true)]));
    assert_eq!(scene.message("a", 30_000), None);
}

#[test]
fn an_acknowledged_alert_is_not_repeated() {
    let scene = Scene::new();
    scene.raise(&Scene::silent("db1"), 100);
    assert!(scene.accepted("a", 130).is_some());
    let id = list(&scene.database, None).unwrap()[0].id;
    acknowledge(&scene.database, id, "ann", "", &Entry::default()).unwrap();
    assert_eq!(scene.message("a", 30_000), None);
    scene.close_all(30_001);
    assert_eq!(scene.accepted("a", 30_031), servers(&[("db1", true)]));
}

#[test]
fn channels_do_not_wait_for_each_other() {
    let scene = Scene::new();
    scene.raise(&Scene::silent("db1"), 100);
    let open = servers(&[("db1", false)]);
    assert_eq!(scene.message("a", 130), open);
    assert_eq!(scene.accepted("b", 130), open);
    let due = deliveries::due(&scene.database, "a", 130).unwrap()[0];
    deliveries::failed(&scene.database, &due, "refused", 140).unwrap();
    assert_eq!(scene.message("a", 141), None);
    assert_eq!(scene.message("a", 2_000_140), open);
    let alert = &list(&scene.database, None).unwrap()[0];
    let states: Vec<_> = alert
        .deliveries
        .iter()
        .map(|it| (it.channel.as_str(), it.state.as_str(), it.tries, it.last_error.as_deref()))
        .collect();
    assert_eq!(states, [("b", "sent", 1, None), ("a", "pending", 1, Some("refused"))]);
    let waiting = [("a".to_owned(), "refused".to_owned())];
    assert_eq!(deliveries::undelivered(&scene.database, 131).unwrap(), waiting);
    // A channel that is removed is given up; when it comes again it begins anew.
    deliveries::configure(&scene.database, &["b"], 150).unwrap();
    assert_eq!(deliveries::due(&scene.database, "a", 3_000_000).unwrap(), []);
    assert_eq!(deliveries::undelivered(&scene.database, 131).unwrap(), []);
}

#[test]
fn a_new_channel_does_not_send_what_is_over() {
    let scene = Scene::new();
    scene.raise(&Scene::silent("db1"), 100);
    scene.close_all(200);
    scene.raise(&Scene::silent("db2"), 250);
    deliveries::configure(&scene.database, &["c"], 300).unwrap();
    assert_eq!(scene.accepted("c", 300), servers(&[("db2", false)]));
}

#[test]
fn a_message_that_is_never_accepted_fails_after_days_and_open_alerts_are_sent_again() {
    let scene = Scene::new();
    scene.raise(&Scene::silent("db1"), 100);
    assert!(scene.message("a", 130).is_some());
    let end_us = 130 + deliveries::GIVE_UP_US;
    let due = deliveries::due(&scene.database, "a", 130).unwrap()[0];
    deliveries::failed(&scene.database, &due, "x", end_us - 1).unwrap();
    assert_eq!(list(&scene.database, None).unwrap()[0].deliveries[0].state, "pending");
    deliveries::failed(&scene.database, &due, "x", end_us).unwrap();
    assert_eq!(list(&scene.database, None).unwrap()[0].deliveries[0].state, "failed");
    assert_eq!(scene.message("a", end_us + 1), servers(&[("db1", false)]));
}

#[test]
fn a_clock_that_is_set_back_delays_nothing() {
    let scene = Scene::new();
    let later_us = 100_000_000_000;
    scene.raise(&Scene::silent("db1"), later_us);
    assert!(scene.message("a", 5).is_some());
    let due = deliveries::due(&scene.database, "a", 5).unwrap()[0];
    deliveries::failed(&scene.database, &due, "x", later_us).unwrap();
    assert_eq!(deliveries::due(&scene.database, "a", 5).unwrap().len(), 1);
}
