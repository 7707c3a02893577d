//! Asks the server of a capture about sessions of which packets have not shown everything.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use tacho_capture::enrich::rows::{List, READS, Row};
use tacho_capture::enrich::{Answers, Enricher, Question, Unknown};
use tacho_sandbox::client::{Conn, Login, Queryable as _};

use super::CaptureError;
use crate::cli::CaptureArgs;

/// How long the server may take for one answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long the addresses of a name are believed.
const NAME_KEPT: Duration = Duration::from_secs(60);
/// Names that are kept.
const NAMES_MAX: usize = 10_000;
/// The server keeps so much of a prepared statement (`COL_INFO_SIZE`): a text that is almost as
/// long may be cut.
const WHOLE_TEXT_MAX: usize = 1_000;
/// Prepared statements of one session.
const STATEMENTS_MAX: usize = 20_000;
/// Texts of all sessions of one round, bytes.
const TEXTS_BYTES_MAX: usize = 32 << 20;

/// Columns as in [`Row`]. While a session executes a stored program, the first two may be another
/// user's.
const MARIADB_LIST: &str =
    "SELECT ID, USER, HOST, DB, COMMAND, QUERY_ID FROM information_schema.PROCESSLIST";
/// Its table is `performance_schema.processlist`, which has the port; older releases have only the
/// other one. `threads` has the user of the login.
const MYSQL_LIST: &str = "SELECT p.ID, t.PROCESSLIST_USER, p.HOST, t.PROCESSLIST_DB, \
    t.PROCESSLIST_COMMAND, s.EVENT_ID FROM {processlist} p \
    JOIN performance_schema.threads t ON t.PROCESSLIST_ID = p.ID \
    LEFT JOIN performance_schema.events_statements_current s ON s.THREAD_ID = t.THREAD_ID";
/// Since MySQL 5.7 it has statements of stored programs, too.
const OUTER_ONLY: &str = " AND s.NESTING_EVENT_LEVEL = 0";

/// Columns of `performance_schema` that some releases lack, or that the account may not read.
const COLUMNS: &str = "SELECT CONCAT(TABLE_NAME, '.', COLUMN_NAME) FROM information_schema.COLUMNS \
    WHERE TABLE_SCHEMA = 'performance_schema' AND \
    (TABLE_NAME = 'processlist' AND COLUMN_NAME = 'HOST' \
    OR TABLE_NAME = 'threads' AND COLUMN_NAME = 'PROCESSLIST_USER' \
    OR TABLE_NAME = 'events_statements_current' AND COLUMN_NAME = 'NESTING_EVENT_LEVEL' \
    OR TABLE_NAME = 'prepared_statements_instances' AND COLUMN_NAME = 'SQL_TEXT')";

type Columns =
    (u64, Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>, Option<u64>);

/// Prepared statements: their numbers and texts.
type Texts = Vec<(u32, Vec<u8>)>;

/// A server that is asked, and its addresses in the packets.
pub struct Plan {
    source: EnrichSource,
    servers: Vec<SocketAddr>,
}

impl Plan {
    /// That of the command line, if it names one. Reads the account: a file with a password may be
    /// readable only before privileges are given up.
    pub fn of(args: &CaptureArgs) -> Result<Option<Plan>, CaptureError> {
        let Some(source) = EnrichSource::of(args)? else { return Ok(None) };
        Ok(Some(Plan { source, servers: servers(args)? }))
    }

    /// Starts the thread that asks, which has the privileges of this one, for so many threads of
    /// packets.
    pub fn start(self, threads: usize) -> Result<Vec<Enricher>, CaptureError> {
        let Plan { mut source, servers } = self;
        let ask = Box::new(move |questions: &[Question]| source.ask(questions));
        Enricher::start(&servers, threads, ask).map_err(CaptureError::Thread)
    }
}

/// The addresses of the server in the packets. A client may use one port for connections to two
/// servers, so they must not be another server's.
fn servers(args: &CaptureArgs) -> Result<Vec<SocketAddr>, CaptureError> {
    if !args.enrich.enrich_server.is_empty() {
        return Ok(args.enrich.enrich_server.clone());
    }
    match &args.server[..] {
        [one] if !one.ip().is_unspecified() => Ok(vec![*one]),
        _ => Err(CaptureError::EnrichServer),
    }
}

/// The server.
pub struct EnrichSource {
    login: Login,
    conn: Option<Connected>,
    names: HashMap<String, (Instant, Vec<IpAddr>)>,
}

/// A connection to it.
struct Connected {
    conn: Conn,
    /// The id of this connection.
    own: u64,
    list: String,
    /// See [`List::has_own_users`].
    has_own_users: bool,
    /// Why it does not know the texts of prepared statements.
    no_texts: Option<String>,
}

impl Connected {
    fn open(login: &Login) -> Result<Connected, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let mut conn = login.connect_within(DEADLINE).map_err(|error| said(&error))?;
        let head: Option<(String, u64, bool)> = conn
            .query_first("SELECT VERSION(), CONNECTION_ID(), @@GLOBAL.performance_schema")
            .map_err(|error| said(&error))?;
        let (version, own, has_schema) = head.unwrap_or_default();
        let is_mysql = !version.contains("MariaDB");
        if is_mysql && ["5.0.", "5.1.", "5.5."].iter().any(|old| version.starts_with(old)) {
            return Err(format!("it is MySQL {version}: only MySQL 5.6 and later can be asked"));
        }
        if is_mysql && !has_schema {
            return Err("it has performance_schema = OFF; set it to ON".to_owned());
        }
        if !may_see_all(&mut conn) {
            return Err(format!("the account {} lacks the privilege PROCESS", login.user));
        }
        let columns: HashSet<String> =
            conn.query(COLUMNS).map_err(|error| said(&error))?.into_iter().collect();
        if is_mysql && !columns.contains("threads.PROCESSLIST_USER") {
            return Err(format!(
                "the account {} cannot read performance_schema.threads of MySQL {version}",
                login.user
            ));
        }
        let (list, has_own_users) = match is_mysql {
            true => mysql_list(&columns),
            false => (MARIADB_LIST.to_owned(), false),
        };
        let no_texts = if !has_schema {
            Some(no_texts("the server has performance_schema = OFF"))
        } else if !columns.contains("prepared_statements_instances.SQL_TEXT") {
            Some(no_texts(&format!(
                "the account {} cannot read performance_schema.prepared_statements_instances, or \
                 the server is older than MySQL 5.7 or MariaDB 10.5: it is {version}",
                login.user
            )))
        } else {
            None
        };
        Ok(Connected { conn, own, list, has_own_users, no_texts })
    }

    fn read(&mut self) -> Result<Vec<Row>, String> {
        let rows: Vec<Columns> = self.conn.query(&self.list).map_err(|error| error.to_string())?;
        let text =
            |it: Option<Vec<u8>>| String::from_utf8_lossy(&it.unwrap_or_default()).into_owned();
        let row = |(id, user, host, db, command, statement): Columns| Row {
            id,
            user: user.unwrap_or_default(),
            host: text(host),
            db,
            command: text(command),
            statement,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// The prepared statements of a session. `None`: there are too many.
    fn texts(&mut self, conn: u64) -> Result<Option<Texts>, String> {
        let rows: Vec<(u32, Option<Vec<u8>>)> = self
            .conn
            .query(format!(
                "SELECT s.STATEMENT_ID, s.SQL_TEXT FROM performance_schema.threads t \
                 JOIN performance_schema.prepared_statements_instances s \
                 ON s.OWNER_THREAD_ID = t.THREAD_ID WHERE t.PROCESSLIST_ID = {conn} \
                 AND COALESCE(s.STATEMENT_NAME, '') = '' LIMIT {}",
                STATEMENTS_MAX + 1
            ))
            .map_err(|error| error.to_string())?;
        if rows.len() > STATEMENTS_MAX {
            return Ok(None);
        }
        let is_whole = |text: &Vec<u8>| (1..WHOLE_TEXT_MAX).contains(&text.len());
        let texts = rows.into_iter().filter_map(|(id, text)| Some((id, text.filter(is_whole)?)));
        Ok(Some(texts.collect()))
    }

    fn ask(
        &mut self,
        questions: &[Question],
        resolve: &mut dyn FnMut(&str) -> Vec<IpAddr>,
    ) -> Result<Answers, String> {
        let mut reads: [Vec<Row>; READS] = Default::default();
        // Without questions, the sessions without packets are counted.
        let count = if questions.is_empty() { 1 } else { READS };
        for read in reads.iter_mut().take(count) {
            *read = self.read()?;
        }
        let local = reads[0].iter().filter(|row| row.is_local() && row.id != self.own).count();
        let list = List { reads, has_own_users: self.has_own_users };
        let unknown = questions.iter().map(|it| &it.unknown).collect::<Vec<&Unknown>>();
        let mut facts = list.facts(&unknown, resolve);
        let mut left_bytes = TEXTS_BYTES_MAX;
        for (facts, asked) in facts.iter_mut().zip(&unknown) {
            let Some(facts) = facts.as_mut().filter(|_| asked.texts && left_bytes > 0) else {
                continue;
            };
            if self.no_texts.is_some() {
                break;
            }
            match self.texts(facts.conn) {
                Ok(texts) => {
                    let bytes = texts.iter().flatten().map(|(_, text)| text.len());
                    left_bytes = left_bytes.saturating_sub(bytes.sum());
                    facts.texts = texts;
                }
                Err(error) => self.no_texts = Some(no_texts(&error)),
            }
        }
        let local_sessions = local as u64;
        Ok(Answers { facts, local_sessions, no_texts: self.no_texts.clone() })
    }
}

fn no_texts(error: &str) -> String {
    format!("the texts of statements that were prepared before the capture are not known: {error}")
}

/// Whether the process list has the sessions of other accounts: `information_schema.INNODB_METRICS`
/// needs the same privilege, and is empty or an error without it.
fn may_see_all(conn: &mut Conn) -> bool {
    let count = "SELECT COUNT(*) FROM information_schema.INNODB_METRICS";
    conn.query_first::<u64, _>(count).ok().flatten().is_some_and(|count| count > 0)
}

/// The statement, and whether the list has the host of the login whatever a session executes.
fn mysql_list(columns: &HashSet<String>) -> (String, bool) {
    let (table, has_own) = match columns.contains("processlist.HOST") {
        true => ("performance_schema.processlist", true),
        false => ("information_schema.PROCESSLIST", false),
    };
    let mut list = MYSQL_LIST.replace("{processlist}", table);
    if columns.contains("events_statements_current.NESTING_EVENT_LEVEL") {
        list.push_str(OUTER_ONLY);
    }
    (list, has_own)
}

impl EnrichSource {
    /// That of the command line, if it names one.
    pub fn of(args: &CaptureArgs) -> Result<Option<EnrichSource>, CaptureError> {
        let login = args.enrich.login().map_err(CaptureError::Enrich)?;
        Ok(login.map(|login| EnrichSource { login, conn: None, names: HashMap::new() }))
    }

    /// Asks about these sessions.
    ///
    /// # Errors
    /// The server does not answer, or the account lacks a privilege.
    pub fn ask(&mut self, questions: &[Question]) -> Result<Answers, String> {
        let had_connection = self.conn.is_some();
        let answers = self.try_ask(questions).or_else(|error| {
            // The server ends connections that are idle for long, and it may have been restarted.
            self.conn = None;
            if had_connection { self.try_ask(questions) } else { Err(error) }
        });
        answers.map_err(|error| {
            self.conn = None;
            format!("cannot ask the server at {}: {error}", self.login.address)
        })
    }

    fn try_ask(&mut self, questions: &[Question]) -> Result<Answers, String> {
        let connected = match &mut self.conn {
            Some(connected) => connected,
            None => self.conn.insert(Connected::open(&self.login)?),
        };
        let names = &mut self.names;
        connected.ask(questions, &mut |name| addresses(names, name))
    }
}

/// The addresses of a client's name. A server uses a name only if it has the client's address.
fn addresses(names: &mut HashMap<String, (Instant, Vec<IpAddr>)>, name: &str) -> Vec<IpAddr> {
    let known = names.get(name).filter(|(since, _)| since.elapsed() < NAME_KEPT);
    if let Some((_, addresses)) = known {
        return addresses.clone();
    }
    // A name that cannot be resolved has no address.
    let found = (name, 0).to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    let addresses = found.iter().map(|it| it.ip().to_canonical()).collect::<Vec<_>>();
    if names.len() >= NAMES_MAX {
        names.clear();
    }
    names.insert(name.to_owned(), (Instant::now(), addresses.clone()));
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_releases_of_mysql_are_asked_for_what_they_have() {
        let list =
            |columns: &[&str]| mysql_list(&columns.iter().map(|it| it.to_string()).collect());
        let level = "events_statements_current.NESTING_EVENT_LEVEL";
        let (of_80, has_own) = list(&["processlist.HOST", level]);
        assert!(of_80.contains("performance_schema.processlist") && has_own);
        assert!(of_80.ends_with(OUTER_ONLY));
        let (of_57, has_own) = list(&[level]);
        assert!(of_57.contains("information_schema.PROCESSLIST") && !has_own);
        assert!(of_57.ends_with(OUTER_ONLY));
        let (of_56, has_own) = list(&[]);
        assert!(of_56.contains("information_schema.PROCESSLIST") && !has_own);
        assert!(!of_56.contains("NESTING_EVENT_LEVEL") && !of_56.contains('{'));
    }
}
