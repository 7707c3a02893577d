//! Alerts to real servers on the loopback address: a mail server and a syslog server of the test.

mod mail;
mod process;
mod receiver;
mod sinks;
mod syslog;
mod webhook;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tacho_hub::alerts::settings::AlertArgs;
use tacho_hub::alerts::{Alert, Channels, Delivery, Raise, Rule, close_others, list, raise};
use tacho_hub::clock::now_us;
use tacho_hub::database::Database;

/// After this time a test fails that would wait for ever.
const HANGS_AFTER: Duration = Duration::from_secs(600);

/// A database with alerts, and the channels of a hub.
struct Hub {
    directory: tempfile::TempDir,
    database: Database,
    channels: Option<Channels>,
}

impl Hub {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("hub.sqlite")).unwrap();
        Self { directory, database, channels: None }
    }

    fn start(&mut self, settings: &AlertArgs) {
        let channels = settings.channels().unwrap();
        self.channels = Some(Channels::start(channels, settings.timing(), &self.database).unwrap());
    }

    /// The channels end, and the database is opened again, as by another process.
    fn stop(&mut self) {
        self.channels = None;
        self.database = Database::open(&self.directory.path().join("hub.sqlite")).unwrap();
    }

    fn silent(server: &str, message: &str) -> Raise {
        Raise {
            rule: Rule::ShipperSilent,
            server: Some(server.parse().unwrap()),
            subject: String::new(),
            message: message.to_owned(),
            examples: vec![format!("example of {message}")],
            count: Some(1),
        }
    }

    fn raise(&self, new: &Raise) {
        self.database.write(|transaction| raise(transaction, new, now_us())).unwrap();
    }

    fn close_all(&self) {
        self.database.write(|transaction| close_others(transaction, &[], now_us())).unwrap();
    }

    fn alert(&self) -> Alert {
        list(&self.database, None).unwrap().remove(0)
    }

    /// Waits until the newest delivery of the newest alert is as wanted.
    fn wait(&self, what: &str, is_wanted: impl Fn(&Delivery) -> bool) -> Delivery {
        let begun = Instant::now();
        loop {
            let found = self.alert().deliveries.into_iter().next();
            if let Some(found) = found.as_ref().filter(|it| is_wanted(it)) {
                return found.clone();
            }
            assert!(begun.elapsed() < HANGS_AFTER, "{what}: {found:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait_sent(&self, alert_state: &str) -> Delivery {
        self.wait("sent", |it| it.state == "sent" && it.alert_state == alert_state)
    }

    fn wait_failed_try(&self) -> String {
        let found = self.wait("a failed try", |it| it.tries > 0 && it.last_error.is_some());
        assert_eq!(found.state, "pending");
        found.last_error.unwrap()
    }
}

fn settings() -> AlertArgs {
    AlertArgs { alert_repeat: 3_600, ..AlertArgs::default() }
}

fn file(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path
}
