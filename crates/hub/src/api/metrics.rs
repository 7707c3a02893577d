//! `GET /metrics`: Prometheus' text format.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use tacho_ship::protocol::Origin;

use super::servers::{self, Server};
use super::{ApiError, Caller};
use crate::alerts::{self, Alert, Rule};
use crate::clock::Moment;
use crate::landing::free_bytes;
use crate::retention::storage::Storage;
use crate::state::AppState;
use crate::verification::SealState;

/// How old the figures of the disk may be.
const STORAGE_AGE: Duration = Duration::from_secs(60);
const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /metrics`. Needs a token: names of servers are in it.
///
/// # Errors
/// The caller may not see the state of servers.
pub async fn metrics(
    State(state): State<AppState>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    caller.may_see_state()?;
    let mut text = Text::default();
    let landing = state.ship.landing();
    let counters = landing.counters();
    let now = Moment::now();
    for (name, kind, help, value) in [
        ("bodies_total", "counter", "Bodies stored.", &counters.bodies),
        ("bytes_total", "counter", "Bytes stored.", &counters.bytes),
        ("refused_total", "counter", "Requests of shippers that were refused.", &counters.refused),
    ] {
        text.head(&format!("landing_{name}"), kind, help);
        text.value(&format!("landing_{name}"), "", value.load(Ordering::Relaxed) as f64);
    }
    text.head("disk_free_bytes", "gauge", "Free space of the hub's disk.");
    match free_bytes(landing.data().path()) {
        Ok(free) => text.value("disk_free_bytes", "", free as f64),
        Err(error) => crate::say::say(&format!("cannot read the free space: {error}")),
    }
    text.head("disk_reserve_bytes", "gauge", "With less free space the hub accepts no logs.");
    text.value("disk_reserve_bytes", "", landing.reserve_bytes() as f64);
    text.head("own_log_ok", "gauge", "1: the hub can write its own log.");
    text.value("own_log_ok", "", f64::from(u8::from(state.audit.ready().is_ok())));
    let origins: Vec<_> =
        landing.origins().into_iter().filter(|(origin, ..)| caller.may_see(origin)).collect();
    text.head("replica_bytes", "gauge", "Bytes of the current generation.");
    for (origin, view, _) in &origins {
        text.value("replica_bytes", origin.as_str(), view.bytes as f64);
    }
    text.head("generation", "gauge", "The current generation; more than 1 after a fork.");
    for (origin, view, _) in &origins {
        text.value("generation", origin.as_str(), view.generation as f64);
    }
    text.head("shipper_last_seen_seconds", "gauge", "Time since the shipper was heard of.");
    for (origin, _, shippers) in &origins {
        if let Some(shipper) = shippers.newest() {
            let since_us = now.since_us(&shipper.last);
            text.value("shipper_last_seen_seconds", origin.as_str(), since_us as f64 / 1e6);
        }
    }
    text.head("server_status", "gauge", "A global status variable of a database server, by name.");
    for (origin, ..) in &origins {
        for (name, value) in landing.activity(origin).iter().flat_map(|it| &it.status) {
            text.status(origin.as_str(), name, value);
        }
    }
    for (name, help) in [
        ("verified_seq", "Number of the last record under a good signature."),
        ("unsealed_bytes", "Bytes of records that no frame covers."),
        ("lost_lines", "Records in which the recorder declares a loss."),
        ("gaps", "Missing files or runs of records."),
        ("seal_ok", "1: what is sealed is unchanged and complete."),
    ] {
        text.head(name, "gauge", help);
        for (origin, ..) in &origins {
            let Some(seal) = state.verification.seal(origin) else { continue };
            let value = match name {
                "verified_seq" => seal.checkpoint.map(|(seq, _)| seq),
                "unsealed_bytes" => Some(seal.unsealed_bytes),
                "lost_lines" => Some(seal.lost_lines),
                "gaps" => Some(seal.gaps),
                _ => Some(u64::from(seal.state == SealState::Sealed)),
            };
            if let Some(value) = value {
                text.value(name, origin.as_str(), value as f64);
            }
        }
    }
    text.of_index(&servers::list(&state, &caller.scope)?, &caller);
    text.of_failed_files(&state.index.report(), origins.iter().map(|(origin, ..)| origin));
    let call = |database: &_| alerts::list(database, Some("open"));
    text.of_alerts(&super::alerts::visible(&caller, state.database.call(call).await?));
    let storage = state.storage.ask(STORAGE_AGE).await?;
    text.storage(&storage, &caller);
    Ok(([(header::CONTENT_TYPE, TYPE)], text.0))
}

#[derive(Default)]
struct Text(String);

/// Writing into a `String` cannot fail.
impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP tacho_hub_{name} {help}");
        let _ = writeln!(self.0, "# TYPE tacho_hub_{name} {kind}");
    }

    /// How far searches are behind.
    fn of_index(&mut self, servers: &[Server], caller: &Caller) {
        type Value = fn(&Server) -> Option<f64>;
        let metrics: [(&str, &str, Value); 3] = [
            ("landed_seq", "Number of the last record that has landed.", Server::landed),
            ("indexed_seq", "Number of the last record that searches find.", Server::indexed),
            (
                "lag_seconds",
                "Age of records that searches do not find yet, at most.",
                Server::lag_s,
            ),
        ];
        for (name, help, value) in metrics {
            self.head(name, "gauge", help);
            for server in servers.iter().filter(|server| caller.may_see(server.origin())) {
                if let Some(value) = value(server) {
                    self.value(name, server.origin().as_str(), value);
                }
            }
        }
    }

    fn of_failed_files<'a>(
        &mut self,
        report: &tacho_store::Report,
        origins: impl Iterator<Item = &'a Origin>,
    ) {
        let name = "unindexed_files";
        self.head(name, "gauge", "Log files that cannot be indexed to their end.");
        for origin in origins {
            let count = report.failed.keys().filter(|key| key.origin == origin.as_str()).count();
            self.value(name, origin.as_str(), count as f64);
        }
    }

    fn of_alerts(&mut self, open: &[Alert]) {
        self.head("alerts_open", "gauge", "Alerts that are open and not acknowledged, by rule.");
        for rule in Rule::ALL {
            let count = open.iter().filter(|alert| alert.rule == rule.word()).count();
            let labels = format!("rule=\"{}\",severity=\"{}\"", rule.word(), rule.severity());
            self.with_labels("alerts_open", &labels, count as f64);
        }
    }

    /// A status variable that is a number. A name with other characters is not one of a server.
    fn status(&mut self, server: &str, name: &str, value: &str) {
        let is_plain =
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
        let value = value.parse().ok().filter(|value: &f64| value.is_finite());
        if let (true, Some(value)) = (is_plain, value) {
            let labels = format!("server=\"{server}\",name=\"{name}\"");
            self.with_labels("server_status", &labels, value);
        }
    }

    fn with_labels(&mut self, metric: &str, labels: &str, value: f64) {
        let _ = writeln!(self.0, "tacho_hub_{metric}{{{labels}}} {value}");
    }

    /// What the logs need of the disk. Of what has no end there is no line.
    fn storage(&mut self, storage: &Storage, caller: &Caller) {
        self.head("accepts_logs", "gauge", "1: the disk has space for logs.");
        self.value("accepts_logs", "", f64::from(u8::from(storage.accepts_logs)));
        self.head("index_bytes", "gauge", "Bytes of the index.");
        self.value("index_bytes", "", storage.index_bytes as f64);
        if let Some(days) = storage.full_in_days {
            self.head("disk_full_days", "gauge", "Days until the hub accepts no logs.");
            self.value("disk_full_days", "", days as f64);
        }
        for (name, help) in [
            ("log_bytes", "Bytes of the log on the disk, of all generations."),
            ("log_plain_bytes", "Bytes of the log without compression, of all generations."),
            ("log_bytes_per_day", "Bytes of log that a day adds, as of the last 7 days."),
            ("log_needed_bytes", "Bytes that are needed when as much is removed as arrives."),
            ("retention_days", "Days for which the log is kept; 0: for ever."),
            ("removed_files", "Log files that retention has removed."),
        ] {
            self.head(name, "gauge", help);
            for server in storage.servers.iter().filter(|it| caller.may_see(&it.server)) {
                let value = match name {
                    "log_bytes" => Some(server.replica_bytes),
                    "log_plain_bytes" => Some(server.plain_bytes),
                    "log_bytes_per_day" => Some(server.bytes_per_day),
                    "log_needed_bytes" => server.needed_bytes,
                    "retention_days" => Some(server.retention_days),
                    _ => Some(server.removed_files),
                };
                if let Some(value) = value {
                    self.value(name, server.server.as_str(), value as f64);
                }
            }
        }
    }

    /// Names of origins need no escapes.
    fn value(&mut self, name: &str, server: &str, value: f64) {
        let labels =
            if server.is_empty() { String::new() } else { format!("{{server=\"{server}\"}}") };
        let _ = writeln!(self.0, "tacho_hub_{name}{labels} {value}");
    }
}
