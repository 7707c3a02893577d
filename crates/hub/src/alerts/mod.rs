//! Alerts of the hub itself: silence, contradictions, broken seals, losses.
//!
//! | module | what it owns |
//! |---|---|
//! | [`rule`] | the rules: words, severities, titles |
//! | [`conditions`] | what is wrong now |
//! | [`monitor`] | the thread that looks |
//! | [`inbox`] | incidents that wait for it |
//! | [`watch`] | changes of the recorder's settings, in the lines that land |
//! | [`settings`] | where alerts are sent |
//! | [`channels`] | a thread for each channel |
//! | [`grouping`] | which alerts are a message, and when |
//! | [`deliveries`] | the messages in the database |
//! | [`notification`] | a message, and its text |
//! | [`webhook`], [`mail`], [`syslog`] | the channels |
//!
//! An alert is one row for (rule, server, subject) until it is closed; repetitions are counted. The
//! alert of a condition is closed when the condition is over. Events, such as a fork or a broken
//! seal, stay until they are acknowledged. If a seal has more bad findings than those that were
//! acknowledged, its alert is closed, and another one begins.

pub mod channels;
pub mod conditions;
pub mod deliveries;
pub mod grouping;
pub mod inbox;
pub mod mail;
pub mod monitor;
pub mod notification;
pub mod rule;
pub mod settings;
pub mod syslog;
pub mod watch;
pub mod webhook;

use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use serde::Serialize;
use tacho_ship::protocol::Origin;

use crate::audit::{Entry, outbox};
use crate::clock::rfc3339;
use crate::database::{Database, DatabaseError};
pub use channels::Channels;
pub use deliveries::Delivery;
pub use monitor::Monitor;
pub use rule::Rule;
pub use settings::AlertArgs;
pub use watch::Watch;

/// Most alerts in one answer.
const LIST_MAX: usize = 1000;

/// Something that is wrong, or has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raise {
    /// Which rule.
    pub rule: Rule,
    /// The server; `None`: the hub.
    pub server: Option<Origin>,
    /// Distinguishes alerts of one rule and server: a file, a generation.
    pub subject: String,
    /// For people. Does not change while the condition is the same.
    pub message: String,
    /// More details, each one line.
    pub examples: Vec<String>,
    /// How often, where that is known; otherwise each raise counts.
    pub count: Option<u64>,
}

/// An alert.
#[derive(Clone, Debug, Serialize)]
pub struct Alert {
    id: i64,
    /// Its rule.
    pub rule: String,
    severity: String,
    /// `open`, `acknowledged` or `closed`.
    pub state: String,
    /// The server; `None`: the hub.
    pub server: Option<String>,
    title: String,
    message: String,
    first_ts: String,
    last_ts: String,
    /// How often.
    pub count: u64,
    examples: Vec<String>,
    note: Option<String>,
    acknowledged_by: Option<String>,
    /// The newest messages about it, the last one first.
    pub deliveries: Vec<Delivery>,
}

const COLUMNS: &str = "alert.id, rule, severity, state, server, title, message, first_us, last_us, \
    count, examples, note, acknowledged_by";

/// Adds or counts.
///
/// # Errors
/// The database fails.
pub fn raise(
    transaction: &Transaction<'_>,
    raise: &Raise,
    now_us: i64,
) -> Result<(), DatabaseError> {
    let server = raise.server.as_ref().map(Origin::as_str);
    let examples = serde_json::json!(raise.examples).to_string();
    let count = raise.count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    if raise.rule == Rule::SealBroken {
        let update = "UPDATE alert SET state = 'closed', last_us = ?4 WHERE rule = ?1
            AND server IS ?2 AND subject = ?3 AND state = 'acknowledged' AND count < ?5";
        let values = params![raise.rule.word(), server, raise.subject, now_us, count];
        transaction.execute(update, values)?;
    }
    let known = "SELECT id, count FROM alert WHERE rule = ?1 AND server IS ?2 AND subject = ?3
        AND state <> 'closed'";
    let key = params![raise.rule.word(), server, raise.subject];
    let known: Option<(i64, i64)> =
        transaction.query_row(known, key, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((id, before)) = known {
        let count = count.unwrap_or_else(|| before.saturating_add(1));
        let update = "UPDATE alert SET last_us = ?2, count = ?3, message = ?4, examples = ?5
            WHERE id = ?1";
        transaction.execute(update, params![id, now_us, count, raise.message, examples])?;
        return Ok(());
    }
    let insert = "INSERT INTO alert (rule, severity, state, server, subject, title, message,
        first_us, last_us, count, examples) VALUES (?1, ?2, 'open', ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9)";
    let rule = raise.rule;
    let (word, severity, title) = (rule.word(), rule.severity(), rule.title());
    let count = count.unwrap_or(1);
    let values = params![
        word,
        severity,
        server,
        raise.subject,
        title,
        raise.message,
        now_us,
        count,
        examples
    ];
    transaction.execute(insert, values)?;
    Ok(())
}

/// Closes the alerts of conditions that are over: those not in `raised`.
///
/// # Errors
/// The database fails.
pub fn close_others(
    transaction: &Transaction<'_>,
    raised: &[Raise],
    now_us: i64,
) -> Result<(), DatabaseError> {
    let select = "SELECT id, rule, server, subject FROM alert WHERE state <> 'closed'";
    let mut statement = transaction.prepare_cached(select)?;
    let row = |row: &Row<'_>| {
        let key: (String, Option<String>, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((row.get::<_, i64>(0)?, key))
    };
    for row in statement.query_map([], row)? {
        let (id, (rule, server, subject)) = row?;
        let ends = Rule::of(&rule).is_some_and(Rule::ends);
        let is_raised = raised.iter().any(|raise| {
            let raised = raise.server.as_ref().map(Origin::as_str);
            raise.rule.word() == rule && raised == server.as_deref() && raise.subject == subject
        });
        if ends && !is_raised {
            let update = "UPDATE alert SET state = 'closed', last_us = ?2 WHERE id = ?1";
            transaction.execute(update, params![id, now_us])?;
        }
    }
    Ok(())
}

/// Alerts in a state, or all; the newest first.
///
/// # Errors
/// The database fails.
pub fn list(database: &Database, state: Option<&str>) -> Result<Vec<Alert>, DatabaseError> {
    database.read(|connection| {
        let select = format!(
            "SELECT {COLUMNS} FROM alert WHERE ?1 IS NULL OR state = ?1
            ORDER BY last_us DESC, id DESC LIMIT {LIST_MAX}"
        );
        let mut statement = connection.prepare_cached(&select)?;
        let alerts = statement.query_map([state], alert)?;
        let mut alerts = alerts.collect::<Result<Vec<_>, _>>()?;
        deliveries::attach(connection, &mut alerts)?;
        Ok(alerts)
    })
}

/// One alert.
///
/// # Errors
/// The database fails.
pub fn find(database: &Database, id: i64) -> Result<Option<Alert>, DatabaseError> {
    database.read(|connection| {
        let select = format!("SELECT {COLUMNS} FROM alert WHERE id = ?1");
        let mut alert = connection.query_row(&select, [id], alert).optional()?;
        deliveries::attach(connection, alert.as_mut_slice())?;
        Ok(alert)
    })
}

/// Acknowledges an alert with a note. Repetitions are still counted; further findings in a broken
/// seal are another alert.
///
/// # Errors
/// The database fails.
pub fn acknowledge(
    database: &Database,
    id: i64,
    user: &str,
    note: &str,
    record: &Entry,
) -> Result<(), DatabaseError> {
    database.write(|transaction| {
        let update = "UPDATE alert SET state = 'acknowledged', note = ?2, acknowledged_by = ?3
            WHERE id = ?1 AND state <> 'closed'";
        if transaction.execute(update, params![id, note, user])? > 0 {
            outbox::put(transaction, record)?;
        }
        Ok(())
    })
}

fn alert(row: &Row<'_>) -> rusqlite::Result<Alert> {
    let examples: String = row.get(10)?;
    let count: i64 = row.get(9)?;
    Ok(Alert {
        id: row.get(0)?,
        rule: row.get(1)?,
        severity: row.get(2)?,
        state: row.get(3)?,
        server: row.get(4)?,
        title: row.get(5)?,
        message: row.get(6)?,
        first_ts: rfc3339(row.get(7)?),
        last_ts: rfc3339(row.get(8)?),
        count: count.unsigned_abs(),
        // Written by this module only.
        examples: serde_json::from_str(&examples).unwrap_or_default(),
        note: row.get(11)?,
        acknowledged_by: row.get(12)?,
        deliveries: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
