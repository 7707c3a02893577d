//! Sends alerts to a webhook, in the format of Alertmanager (version 4), which most tools for chat
//! and on-call duty read.
//!
//! An alert is sent when it opens, every [`REPEAT_US`] while it is open, and when it is closed. The
//! database has what was sent, so a restart neither repeats nor misses one. A failed delivery is
//! repeated with growing pauses.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::params;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use super::{Alert, COLUMNS, alert};
use crate::clock::now_us;
use crate::database::{Database, DatabaseError};
use crate::say::say;

/// Time between two reminders of an open alert, µs.
const REPEAT_US: i64 = 4 * 3600 * 1_000_000;
/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// Longest pause after failures.
const PAUSE_MAX: Duration = Duration::from_secs(300);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Alerts of one look.
const BATCH: usize = 50;

/// The webhook cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Not a URL of HTTP.
    #[error("{0:?} is not a URL for a webhook: it begins with https:// or http://")]
    Url(String),
    /// There are no trusted authorities.
    #[error(transparent)]
    Tls(#[from] tacho_ship::tls::TlsError),
    /// There can be no more threads.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// The thread, until it is dropped.
pub struct Webhook {
    thread: Option<JoinHandle<()>>,
    stop: Option<SyncSender<()>>,
}

impl Webhook {
    /// Starts the thread.
    ///
    /// # Errors
    /// The URL cannot be used, or there can be no more threads.
    pub fn start(url: String, database: Database) -> Result<Self, WebhookError> {
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(WebhookError::Url(url));
        }
        let agent = agent(url.starts_with("https://"))?;
        let (stop, stopped) = sync_channel(1);
        let sender = Sender { url, agent, database };
        let thread = std::thread::Builder::new().name("webhook".to_owned()).spawn(move || {
            let mut pause = INTERVAL;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = match sender.turn() {
                    Ok(()) => INTERVAL,
                    Err(error) => {
                        say(&format!("cannot send an alert to the webhook: {error}; retrying"));
                        (pause * 2).min(PAUSE_MAX)
                    }
                };
            }
        })?;
        Ok(Self { thread: Some(thread), stop: Some(stop) })
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        // The channel is closed, which ends the thread.
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            say("the webhook ended by a panic");
        }
    }
}

fn agent(needs_tls: bool) -> Result<Agent, WebhookError> {
    let config = Agent::config_builder().max_redirects(0).timeout_global(Some(TIMEOUT));
    if !needs_tls {
        return Ok(config.build().into());
    }
    let authorities = tacho_ship::tls::trusted(None)?;
    let authorities =
        authorities.iter().map(|der| Certificate::from_der(der).to_owned()).collect::<Vec<_>>();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(authorities)));
    Ok(config.tls_config(tls.build()).build().into())
}

struct Sender {
    url: String,
    agent: Agent,
    database: Database,
}

impl Sender {
    /// Sends what is to be sent now.
    fn turn(&self) -> Result<(), String> {
        let pending = pending(&self.database, now_us()).map_err(|error| error.to_string())?;
        for alert in pending {
            let body = message(&alert).to_string();
            let request = self.agent.post(&self.url).header("content-type", "application/json");
            request.send(body).map_err(|error| error.to_string())?;
            sent(&self.database, &alert, now_us()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Alerts that were not sent as they are now. One that was closed before it was sent is over.
fn pending(database: &Database, now_us: i64) -> Result<Vec<Alert>, DatabaseError> {
    database.read(|connection| {
        let select = format!(
            "SELECT {COLUMNS} FROM alert
            WHERE sent_state IS NULL AND state <> 'closed'
                OR sent_state <> 'closed' AND state = 'closed'
                OR state = 'open' AND sent_us <= ?1
            ORDER BY id LIMIT {BATCH}"
        );
        let mut statement = connection.prepare_cached(&select)?;
        let alerts = statement.query_map([now_us.saturating_sub(REPEAT_US)], alert)?;
        Ok(alerts.collect::<Result<_, _>>()?)
    })
}

fn sent(database: &Database, alert: &Alert, now_us: i64) -> Result<(), DatabaseError> {
    database.write(|transaction| {
        let update = "UPDATE alert SET sent_state = ?2, sent_us = ?3 WHERE id = ?1";
        transaction.execute(update, params![alert.id, alert.state, now_us])?;
        Ok(())
    })
}

/// The body: one group with one alert.
fn message(alert: &Alert) -> Value {
    let is_closed = alert.state == "closed";
    let status = if is_closed { "resolved" } else { "firing" };
    let server = alert.server.clone().unwrap_or_default();
    let labels = json!({
        "alertname": alert.rule, "severity": alert.severity, "server": server, "job": "tacho-hub",
    });
    let annotations = json!({
        "summary": alert.title, "description": alert.message, "count": alert.count.to_string(),
    });
    let ends = if is_closed { alert.last_ts.as_str() } else { "0001-01-01T00:00:00Z" };
    json!({
        "version": "4",
        "groupKey": format!("{}/{}/{server}", alert.id, alert.rule),
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "tacho-hub",
        "groupLabels": labels,
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": [{
            "status": status,
            "labels": labels,
            "annotations": annotations,
            "startsAt": alert.first_ts,
            "endsAt": ends,
            "generatorURL": "",
            "fingerprint": format!("{:016x}", alert.id),
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::{Raise, Rule, close_others, raise};

    fn database() -> (tempfile::TempDir, Database) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("hub.sqlite")).unwrap();
        (directory, database)
    }

    #[test]
    fn an_alert_is_sent_when_it_opens_again_later_and_when_it_is_closed() {
        let (_directory, database) = database();
        let silent = Raise {
            rule: Rule::ShipperSilent,
            server: Some("db1".parse().unwrap()),
            subject: String::new(),
            message: "text".to_owned(),
            examples: Vec::new(),
            count: Some(1),
        };
        database.write(|transaction| raise(transaction, &silent, 5)).unwrap();
        let one = pending(&database, 6).unwrap();
        assert_eq!(one.len(), 1);
        let body = message(&one[0]);
        assert_eq!((&body["status"], &body["version"]), (&json!("firing"), &json!("4")));
        assert_eq!(body["alerts"][0]["labels"]["alertname"], "shipper_silent");
        assert_eq!(body["alerts"][0]["startsAt"], "1970-01-01T00:00:00.000005Z");
        sent(&database, &one[0], 7).unwrap();
        assert!(pending(&database, 8).unwrap().is_empty());
        assert_eq!(pending(&database, 7 + REPEAT_US).unwrap().len(), 1);
        database.write(|transaction| close_others(transaction, &[], 9)).unwrap();
        let closed = pending(&database, 10).unwrap();
        assert_eq!(message(&closed[0])["status"], "resolved");
        sent(&database, &closed[0], 11).unwrap();
        assert!(pending(&database, 7 + REPEAT_US).unwrap().is_empty());
        // Over before it could be sent.
        database.write(|transaction| raise(transaction, &silent, 20)).unwrap();
        database.write(|transaction| close_others(transaction, &[], 21)).unwrap();
        assert!(pending(&database, 22).unwrap().is_empty());
    }
}
