//! What the database server is doing, for the heartbeats of `tacho ship`: asked in a thread of its
//! own, so that a server that hangs does not keep the log from being shipped.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tacho_sandbox::client::{Conn, Login, Queryable as _};
use tacho_ship::hub::LatestActivity;
use tacho_ship::protocol::activity::{Activity, Process};
use tacho_sql::digest::Normaliser;
use tacho_sql::redact::Setting;

/// Time between two questions.
const INTERVAL: Duration = Duration::from_secs(10);
/// Status variables of the server beside those of the recorder.
const STATUS: &[&str] = &[
    "Aborted_clients",
    "Aborted_connects",
    "Bytes_received",
    "Bytes_sent",
    "Connections",
    "Created_tmp_disk_tables",
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_reads",
    "Innodb_row_lock_current_waits",
    "Innodb_row_lock_time",
    "Max_used_connections",
    "Questions",
    "Slow_queries",
    "Threads_connected",
    "Threads_running",
    "Uptime",
];
/// Longest text of a statement without its literals, bytes.
const DIGEST_TEXT_BYTES: usize = 2 << 10;
/// Memory that the normaliser keeps between statements, bytes.
const KEPT_BYTES: usize = 1 << 20;

/// Asks the server every 10 s until the process ends. Returns what it said last.
///
/// # Errors
/// There is no thread for it.
pub fn watch(login: Login) -> io::Result<LatestActivity> {
    let latest = Arc::new(Mutex::new(None));
    let shared = Arc::clone(&latest);
    let mut source = ActivitySource { login, conn: None, normaliser: Normaliser::default() };
    thread::Builder::new().name("tacho-activity".to_owned()).spawn(move || {
        loop {
            let activity = source.ask();
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(activity);
            thread::sleep(INTERVAL);
        }
    })?;
    Ok(Arc::new(move || latest.lock().unwrap_or_else(PoisonError::into_inner).clone()))
}

const COLUMNS: &str = "ID, USER, HOST, DB, COMMAND, TIME, STATE, INFO";
/// [`COLUMNS`] of one session. Texts are bytes: a statement can have any.
type Row = (u64, Bytes, Bytes, Option<Bytes>, Bytes, Option<i64>, Option<Bytes>, Option<Bytes>);
type Bytes = Vec<u8>;

struct ActivitySource {
    login: Login,
    conn: Option<Conn>,
    normaliser: Normaliser,
}

impl ActivitySource {
    fn ask(&mut self) -> Activity {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        match self.try_ask(time_us) {
            Ok(activity) => activity.limited(),
            Err(error) => {
                self.conn = None;
                Activity::failed(time_us, &error.to_string())
            }
        }
    }

    fn try_ask(&mut self, time_us: i64) -> anyhow::Result<Activity> {
        let conn = match &mut self.conn {
            Some(conn) => conn,
            None => self.conn.insert(self.login.connect()?),
        };
        let head: Option<(String, u64, u64)> =
            conn.query_first("SELECT VERSION(), @@GLOBAL.max_connections, CONNECTION_ID()")?;
        let (version, connections_max, own) = head.unwrap_or_default();
        let rows: Vec<(String, String)> = conn.query("SHOW GLOBAL STATUS")?;
        let mut status: BTreeMap<_, _> =
            rows.into_iter().filter(|(name, _)| is_wanted(name)).collect();
        status.insert("max_connections".to_owned(), connections_max.to_string());
        let table = match version.contains("MariaDB") {
            true => "information_schema.PROCESSLIST",
            false => "performance_schema.processlist",
        };
        let rows: Vec<Row> = conn.query(format!("SELECT {COLUMNS} FROM {table}"))?;
        let process_count = rows.len() as u64;
        let normaliser = &mut self.normaliser;
        let processes = rows.into_iter().map(|row| process(row, normaliser));
        let mut processes: Vec<_> = processes.filter(|process| process.id != own).collect();
        processes.sort_by_key(|process| (process.digest_text.is_none(), u64::MAX - process.time_s));
        Ok(Activity { time_us, version, status, processes, process_count, error: None })
    }
}

fn is_wanted(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("tacho") || STATUS.contains(&name)
}

fn process(row: Row, normaliser: &mut Normaliser) -> Process {
    let (id, user, host, db, command, time_s, state, info) = row;
    let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
    let given = |bytes: Option<Bytes>| bytes.map(text).filter(|text| !text.is_empty());
    Process {
        id,
        user: text(user),
        host: text(host),
        db: given(db),
        command: text(command),
        time_s: time_s.and_then(|time_s| u64::try_from(time_s).ok()).unwrap_or(0),
        state: given(state),
        digest_text: info.and_then(|sql| without_literals(normaliser, &sql)),
    }
}

/// `None`: it is not certain what of the statement is a literal.
fn without_literals(normaliser: &mut Normaliser, sql: &[u8]) -> Option<String> {
    let mode = Setting::of(b"utf8mb4", b"").digest_mode()?;
    let found = normaliser.normalise(sql, mode, DIGEST_TEXT_BYTES);
    let is_sure = !(found.out_of_memory || found.is_broken || found.is_given_up);
    let text = is_sure.then(|| String::from_utf8_lossy(found.text).into_owned());
    normaliser.shrink(KEPT_BYTES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_literal_of_a_statement_leaves_the_host() {
        let mut normaliser = Normaliser::default();
        let mut text = |sql: &str| without_literals(&mut normaliser, sql.as_bytes());
        assert_eq!(
            text("SELECT * FROM card WHERE pan = '4111' AND cvc = 123").as_deref(),
            Some("SELECT * FROM `card` WHERE `pan` = ? AND `cvc` = ?")
        );
        assert_eq!(text("SELECT 'a quote that does not end"), None);
    }
}
