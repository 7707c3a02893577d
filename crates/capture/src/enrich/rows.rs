//! Which session of the server's process list a connection is, and what the list says about it.
//!
//! The list is read while sessions work, and not in one instant. While a session executes a stored
//! program, MariaDB shows the user and the host of its definer, and both servers its database. So
//! the list is read three times, and a row counts only if the session was idle at all three and
//! executed nothing between them: then all its columns are the session's own.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::mysql::session::unknown::{Facts, Unknown};

/// How often the list is read.
pub const READS: usize = 3;
/// The command of an idle session.
const IDLE: &str = "Sleep";
/// Longest host that is believed: some servers cut it with its port.
const HOST_BYTES_MAX: usize = 60;

/// A session of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The id of the connection.
    pub id: u64,
    /// The user's name.
    pub user: Vec<u8>,
    /// Address or name of the client, with its port.
    pub host: String,
    /// The default database.
    pub db: Option<Vec<u8>>,
    /// What it executes.
    pub command: String,
    /// A number that is another one for each statement. `None`: the server has none.
    pub statement: Option<u64>,
}

/// The list, read three times.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The sessions of each time.
    pub reads: [Vec<Row>; READS],
    /// The user and the host are those of the login, whatever the session executes (MySQL).
    pub has_own_users: bool,
}

impl Row {
    /// Address or name, and port.
    fn address(&self) -> Option<(&str, u16)> {
        let (host, port) = self.host.rsplit_once(':')?;
        Some((host, port.parse().ok()?))
    }

    /// Whether it is a session of a client that is connected without a network.
    pub fn is_local(&self) -> bool {
        let is_client = self.command != "Daemon" && !self.host.is_empty();
        let is_login = self.user == b"unauthenticated user" || self.user == b"system user";
        is_client && !is_login && self.address().is_none()
    }

    /// Whether its client has this address. `resolve` returns the addresses of a name.
    fn is_of(&self, ip: IpAddr, port: u16, resolve: &mut dyn FnMut(&str) -> Vec<IpAddr>) -> bool {
        let Some((host, _)) = self.address().filter(|it| it.1 == port) else { return false };
        if let Ok(it) = host.parse::<IpAddr>() {
            return it.to_canonical() == ip;
        }
        if self.host.len() > HOST_BYTES_MAX {
            return false;
        }
        if host == "localhost" { ip.is_loopback() } else { resolve(host).contains(&ip) }
    }
}

/// Whether a session was idle, and has executed nothing between the reads.
fn is_still(rows: &[&Row; READS]) -> bool {
    let is_idle = rows.iter().all(|row| row.command == IDLE && row.statement.is_some());
    is_idle && rows.iter().all(|row| *row == rows[0])
}

impl List {
    /// What the list says about these sessions, in their order. `None`: there is not exactly one
    /// session with the address, or nothing about it is certain. `resolve` returns the addresses
    /// of a name.
    pub fn facts(
        &self,
        sessions: &[&Unknown],
        resolve: &mut dyn FnMut(&str) -> Vec<IpAddr>,
    ) -> Vec<Option<Facts>> {
        let mut by_port = HashMap::<u16, Vec<&Row>>::new();
        for row in &self.reads[0] {
            if let Some((_, port)) = row.address() {
                by_port.entry(port).or_default().push(row);
            }
        }
        let by_id = |rows: &'_ [Row]| -> HashMap<u64, usize> {
            rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect()
        };
        let later = [1, 2].map(|read| by_id(&self.reads[read]));
        let mut facts = |session: &&Unknown| {
            let ip = session.ip.parse::<IpAddr>().ok()?.to_canonical();
            let rows = by_port.get(&session.port)?;
            let mut found = rows.iter().filter(|row| row.is_of(ip, session.port, resolve));
            let (Some(first), None) = (found.next(), found.next()) else { return None };
            // It may be this session, and show the host of a definer.
            let may_be_it = |row: &&Row| row.id != first.id && row.command != IDLE;
            if !self.has_own_users && rows.iter().any(may_be_it) {
                return None;
            }
            let same =
                |read: usize| later[read - 1].get(&first.id).map(|at| &self.reads[read][*at]);
            let rows = [*first, same(1)?, same(2)?];
            self.facts_of(&rows)
        };
        let facts = sessions.iter().map(|session| {
            let facts = facts(session)?;
            let is_it = session.conn == 0 || u64::from(session.conn) == facts.conn;
            is_it.then_some(facts)
        });
        facts.collect()
    }

    fn facts_of(&self, rows: &[&Row; READS]) -> Option<Facts> {
        let [first, ..] = rows;
        let is_still = is_still(rows);
        let is_same = |row: &&Row| row.user == first.user && row.host == first.host;
        let is_own = self.has_own_users && rows.iter().all(is_same);
        if !is_still && !is_own {
            return None;
        }
        Some(Facts {
            conn: first.id,
            user: Some(first.user.clone()),
            db: is_still.then(|| first.db.clone().unwrap_or_default()),
            texts: None,
        })
    }
}

#[cfg(test)]
mod tests;
