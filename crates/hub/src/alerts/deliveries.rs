//! Messages about alerts in the database: what is to be sent, how often it was tried, what became
//! of it. A restart continues here.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Serialize;

use super::notification::{Notification, Notified};
use super::{Alert, COLUMNS, alert};
use crate::clock::rfc3339;
use crate::database::{Database, DatabaseError};

/// Pause after the first failed try, µs. It doubles with each further one.
const PAUSE_FIRST_US: i64 = 2_000_000;
/// Longest pause, µs.
const PAUSE_MAX_US: i64 = 300_000_000;
/// A message that cannot be delivered for so long has failed, µs.
pub const GIVE_UP_US: i64 = 3 * 86_400 * 1_000_000;
/// Alerts that a message lists.
pub const ALERTS_MAX: usize = 50;
/// Deliveries of an alert in an answer, the newest ones.
const DELIVERIES_MAX: i64 = 10;
/// Most characters of an error.
const ERROR_MAX: usize = 500;

/// One message about an alert, to one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// `webhook`, `syslog`, or `mail:` and the recipient.
    pub channel: String,
    /// What the message says of the alert: `open` or `closed`.
    pub alert_state: String,
    /// `pending`, `sent` or `failed`.
    pub state: String,
    /// How often it was tried.
    pub tries: u64,
    /// Why the last try failed.
    pub last_error: Option<String>,
    created_ts: String,
    last_try_ts: Option<String>,
}

/// A message that is to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its number.
    pub id: i64,
    /// How often it was tried.
    pub tries: i64,
    created_us: i64,
}

/// Makes the channels known. Messages to others are not sent any more.
///
/// # Errors
/// The database fails.
pub fn configure(database: &Database, names: &[&str], now_us: i64) -> Result<(), DatabaseError> {
    database.write(|transaction| {
        let names = serde_json::json!(names).to_string();
        let delete = "DELETE FROM channel WHERE name NOT IN (SELECT value FROM json_each(?1))";
        transaction.execute(delete, [&names])?;
        let insert = "INSERT OR IGNORE INTO channel (name, since_us)
            SELECT value, ?2 FROM json_each(?1)";
        transaction.execute(insert, params![names, now_us])?;
        let update = "UPDATE notification SET state = 'failed', last_error = ?2
            WHERE state = 'pending' AND channel NOT IN (SELECT value FROM json_each(?1))";
        transaction.execute(update, params![names, "the channel was removed"])?;
        Ok(())
    })
}

/// Messages of a channel that are to be tried now.
///
/// # Errors
/// The database fails.
pub fn due(database: &Database, channel: &str, now_us: i64) -> Result<Vec<Due>, DatabaseError> {
    database.read(|connection| {
        // Further away than any pause: the clock was set back.
        let select = "SELECT id, tries, created_us FROM notification
            WHERE channel = ?1 AND state = 'pending' AND (next_us <= ?2 OR next_us > ?3)
            ORDER BY id";
        let mut statement = connection.prepare_cached(select)?;
        let values = params![channel, now_us, now_us.saturating_add(PAUSE_MAX_US)];
        let rows = statement.query_map(values, |row| {
            Ok(Due { id: row.get(0)?, tries: row.get(1)?, created_us: row.get(2)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    })
}

/// The content of a message.
///
/// # Errors
/// The database fails.
pub fn load(database: &Database, id: i64) -> Result<Notification, DatabaseError> {
    database.read(|connection| {
        let select = "SELECT rule, created_us,
            (SELECT count(*) FROM notified_alert WHERE notification = notification.id)
            FROM notification WHERE id = ?1";
        let (rule, created_us, count): (String, i64, i64) =
            connection
                .query_row(select, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let select = format!(
            "SELECT {COLUMNS}, alert_state FROM notified_alert
            JOIN alert ON alert.id = notified_alert.alert
            WHERE notification = ?1 ORDER BY alert_state DESC, last_us DESC LIMIT {ALERTS_MAX}"
        );
        let mut statement = connection.prepare_cached(&select)?;
        let alerts = statement.query_map([id], |row| {
            let state: String = row.get("alert_state")?;
            Ok(Notified { alert: alert(row)?, is_resolved: state == "closed" })
        })?;
        let alerts = alerts.collect::<Result<Vec<_>, _>>()?;
        let omitted = usize::try_from(count).unwrap_or(0).saturating_sub(alerts.len());
        Ok(Notification { id, rule, created_us, alerts, omitted })
    })
}

/// Stores that a message was accepted by its receiver.
///
/// # Errors
/// The database fails.
pub fn sent(database: &Database, id: i64, now_us: i64) -> Result<(), DatabaseError> {
    database.write(|transaction| {
        let update = "UPDATE notification SET state = 'sent', tries = tries + 1, last_us = ?2,
            last_error = NULL WHERE id = ?1";
        transaction.execute(update, params![id, now_us])?;
        Ok(())
    })
}

/// Stores why a try failed, and when the next one is.
///
/// # Errors
/// The database fails.
pub fn failed(
    database: &Database,
    due: &Due,
    error: &str,
    now_us: i64,
) -> Result<(), DatabaseError> {
    let has_failed = now_us.saturating_sub(due.created_us) >= GIVE_UP_US;
    let state = if has_failed { "failed" } else { "pending" };
    let next_us = now_us.saturating_add(pause_us(due.tries));
    let error: String = error.chars().take(ERROR_MAX).collect();
    database.write(|transaction| {
        let update = "UPDATE notification SET state = ?2, tries = tries + 1, last_us = ?3,
            next_us = ?4, last_error = ?5 WHERE id = ?1";
        transaction.execute(update, params![due.id, state, now_us, next_us, error])?;
        Ok(())
    })
}

fn pause_us(tries: i64) -> i64 {
    let doublings = u32::try_from(tries).unwrap_or(u32::MAX).min(20);
    PAUSE_FIRST_US.saturating_mul(1 << doublings).min(PAUSE_MAX_US)
}

/// Channels with a message that has waited for so long, and why it has.
///
/// # Errors
/// The database fails.
pub fn undelivered(
    database: &Database,
    before_us: i64,
) -> Result<Vec<(String, String)>, DatabaseError> {
    database.read(|connection| {
        let select = "SELECT channel, ifnull(last_error, '') FROM notification
            WHERE id IN (SELECT min(id) FROM notification
                WHERE state = 'pending' AND created_us < ?1 AND tries > 0 GROUP BY channel)
            ORDER BY channel";
        let mut statement = connection.prepare_cached(select)?;
        let rows = statement.query_map([before_us], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    })
}

/// Adds the deliveries to alerts.
pub(super) fn attach(connection: &Connection, alerts: &mut [Alert]) -> Result<(), DatabaseError> {
    let ids: Vec<i64> = alerts.iter().map(|alert| alert.id).collect();
    let select = format!(
        "SELECT * FROM (
            SELECT alert, channel, alert_state, state, tries, last_error, created_us, last_us,
                row_number() OVER (PARTITION BY alert ORDER BY notification.id DESC) AS place
            FROM notified_alert JOIN notification ON notification.id = notification
            WHERE alert IN (SELECT value FROM json_each(?1)))
        WHERE place <= {DELIVERIES_MAX} ORDER BY place"
    );
    let mut statement = connection.prepare_cached(&select)?;
    let mut rows = statement.query([serde_json::json!(ids).to_string()])?;
    let mut found: BTreeMap<i64, Vec<Delivery>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        found.entry(row.get("alert")?).or_default().push(delivery(row)?);
    }
    for alert in alerts {
        alert.deliveries = found.remove(&alert.id).unwrap_or_default();
    }
    Ok(())
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let last_us: Option<i64> = row.get("last_us")?;
    Ok(Delivery {
        channel: row.get("channel")?,
        alert_state: row.get("alert_state")?,
        state: row.get("state")?,
        tries: row.get("tries")?,
        last_error: row.get("last_error")?,
        created_ts: rfc3339(row.get("created_us")?),
        last_try_ts: last_us.map(rfc3339),
    })
}

const SETTING: &str = "alert_channels";

/// Stores how the channels are configured, for commands beside the hub.
///
/// # Errors
/// The database fails.
pub fn save_settings(database: &Database, json: &str) -> Result<(), DatabaseError> {
    database.write(|transaction| {
        let insert = "INSERT INTO setting (name, value) VALUES (?1, ?2)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        transaction.execute(insert, [SETTING, json])?;
        Ok(())
    })
}

/// How the channels were configured when a hub was last started.
///
/// # Errors
/// The database fails.
pub fn settings(database: &Database) -> Result<Option<String>, DatabaseError> {
    database.read(|connection| {
        let select = "SELECT value FROM setting WHERE name = ?1";
        Ok(connection.query_row(select, [SETTING], |row| row.get(0)).optional()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_five_minutes() {
        assert_eq!([0, 1, 2].map(pause_us), [2_000_000, 4_000_000, 8_000_000]);
        assert_eq!([7, 8, 1_000].map(pause_us), [256_000_000, PAUSE_MAX_US, PAUSE_MAX_US]);
    }
}
