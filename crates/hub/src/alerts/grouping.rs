//! Which alerts make the next message to a channel, and when.
//!
//! As in Alertmanager, alerts of one rule are one message. The first one waits a little, so that
//! servers that fail together are in it; changes are sent at intervals; alerts that stay open are
//! repeated after a long time. A message has all open alerts of its rule, and those that were
//! closed since the last message.
//!
//! A rule has at most one pending message for each channel. The next one has all changes of the
//! time in which the receiver could not be reached.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::database::{Database, DatabaseError};

/// A channel that is configured anew does not send what was closed longer ago, µs.
const CLOSED_MAX_US: i64 = 7 * 86_400 * 1_000_000;

/// When messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the first alert of a rule to its message, µs.
    pub wait_us: i64,
    /// Between two messages of a rule, µs.
    pub interval_us: i64,
    /// From a message to its repetition, if an alert is still open and not acknowledged, µs.
    pub repeat_us: i64,
}

impl Timing {
    fn is_due(self, due_us: i64, now_us: i64) -> bool {
        let longest_us = self.wait_us.max(self.interval_us).max(self.repeat_us);
        // Further away than any pause: the clock was set back.
        now_us >= due_us || due_us.saturating_sub(now_us) > longest_us
    }
}

/// Alerts of a rule.
#[derive(Default)]
struct Group {
    /// Alerts that the channel does not know, or not as they are, and their state.
    news: Vec<(i64, &'static str)>,
    /// When the first of them came, µs since 1970-01-01 UTC.
    first_us: Option<i64>,
    /// Alerts that it knows, and that are still open.
    open: Vec<i64>,
}

impl Group {
    fn add(&mut self, alert: i64, state: &'static str, at_us: i64) {
        self.news.push((alert, state));
        self.first_us = Some(self.first_us.map_or(at_us, |first| first.min(at_us)));
    }
}

/// Stores the messages that are due for a channel.
///
/// # Errors
/// The database fails.
pub fn plan(
    database: &Database,
    channel: &str,
    timing: Timing,
    now_us: i64,
) -> Result<(), DatabaseError> {
    let due: Vec<(String, Group)> = database.read(|connection| {
        let mut due = Vec::new();
        for (rule, group) in groups(connection, channel, timing, now_us)? {
            if is_due(connection, channel, &rule, &group, timing, now_us)? {
                due.push((rule, group));
            }
        }
        Ok::<_, DatabaseError>(due)
    })?;
    if due.is_empty() {
        return Ok(());
    }
    database.write(|transaction| {
        due.iter().try_for_each(|(rule, group)| insert(transaction, channel, rule, group, now_us))
    })
}

fn groups(
    connection: &Connection,
    channel: &str,
    timing: Timing,
    now_us: i64,
) -> Result<BTreeMap<String, Group>, DatabaseError> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let since = "SELECT since_us FROM channel WHERE name = ?1";
    let since_us: Option<i64> =
        connection.query_row(since, [channel], |row| row.get(0)).optional()?;
    // A channel that was removed meanwhile.
    let Some(since_us) = since_us else { return Ok(groups) };
    let select = "
        SELECT id, rule, state, first_us, last_us,
            (SELECT alert_state FROM notified_alert
             JOIN notification ON notification.id = notified_alert.notification
             WHERE notified_alert.alert = alert.id AND notification.channel = ?1
             ORDER BY notification.id DESC LIMIT 1)
        FROM (
            SELECT * FROM alert WHERE state <> 'closed'
            UNION ALL SELECT * FROM alert WHERE last_us >= ?2 AND state = 'closed'
        ) AS alert
        ORDER BY id";
    let mut statement = connection.prepare_cached(select)?;
    let closed_us = since_us.max(now_us.saturating_sub(CLOSED_MAX_US));
    let mut rows = statement.query(params![channel, closed_us])?;
    while let Some(row) = rows.next()? {
        let (id, rule): (i64, String) = (row.get(0)?, row.get(1)?);
        let (state, known): (String, Option<String>) = (row.get(2)?, row.get(5)?);
        let (first_us, last_us): (i64, i64) = (row.get(3)?, row.get(4)?);
        let group = groups.entry(rule).or_default();
        match (known.as_deref(), state.as_str()) {
            // One that was over before its message was due is not sent.
            (None, "closed") if last_us.saturating_sub(first_us) < timing.wait_us => {}
            (None, "closed") => group.add(id, "closed", last_us),
            (None, _) => group.add(id, "open", first_us),
            (Some("open"), "closed") => group.add(id, "closed", last_us),
            (Some("open"), "open") => group.open.push(id),
            _ => {}
        }
    }
    Ok(groups)
}

fn is_due(
    connection: &Connection,
    channel: &str,
    rule: &str,
    group: &Group,
    timing: Timing,
    now_us: i64,
) -> Result<bool, DatabaseError> {
    let select = "SELECT state, created_us FROM notification WHERE channel = ?1 AND rule = ?2
        ORDER BY id DESC LIMIT 1";
    let mut statement = connection.prepare_cached(select)?;
    let last: Option<(String, i64)> =
        statement.query_row([channel, rule], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let last_us = match last {
        Some((state, _)) if state == "pending" => return Ok(false),
        last => last.map(|(_, created_us)| created_us),
    };
    let changed_us = group.first_us.map(|first_us| {
        let waited_us = first_us.saturating_add(timing.wait_us);
        last_us.map_or(waited_us, |us| waited_us.max(us.saturating_add(timing.interval_us)))
    });
    let repeated_us = last_us.filter(|_| !group.open.is_empty());
    let repeated_us = repeated_us.map(|us| us.saturating_add(timing.repeat_us));
    Ok([changed_us, repeated_us].into_iter().flatten().any(|us| timing.is_due(us, now_us)))
}

fn insert(
    transaction: &Transaction<'_>,
    channel: &str,
    rule: &str,
    group: &Group,
    now_us: i64,
) -> Result<(), DatabaseError> {
    let insert = "INSERT INTO notification (channel, rule, state, created_us, tries, next_us)
        VALUES (?1, ?2, 'pending', ?3, 0, ?3)";
    transaction.execute(insert, params![channel, rule, now_us])?;
    let notification = transaction.last_insert_rowid();
    let insert = "INSERT INTO notified_alert (alert, notification, alert_state)
        VALUES (?1, ?2, ?3)";
    let mut statement = transaction.prepare_cached(insert)?;
    let open = group.open.iter().map(|alert| (*alert, "open"));
    for (alert, state) in group.news.iter().copied().chain(open) {
        statement.execute(params![alert, notification, state])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
