//! An application: its connections, and how busy they are in the course of the day.

use tacho_record::{EventKind, Outcome, OwnedRecord};

use super::clock::SECOND_US;
use super::random::Random;
use super::shape::Shape;

/// How load depends on the hour.
#[derive(Clone, Copy)]
pub enum Rhythm {
    /// Customers: little at night, most in the evening.
    Customers,
    /// Office hours.
    Office,
    /// The same all day.
    Steady,
    /// In the first minutes of each hour.
    Hourly,
}

/// The share of the highest load in each hour of a day of customers.
const CUSTOMERS: [f64; 24] = [
    0.22, 0.14, 0.10, 0.08, 0.08, 0.12, 0.22, 0.38, 0.52, 0.62, 0.68, 0.74, 0.80, 0.74, 0.68, 0.66,
    0.70, 0.78, 0.90, 1.00, 0.98, 0.84, 0.60, 0.38,
];
const OFFICE: [f64; 24] = [
    0.02, 0.02, 0.02, 0.02, 0.02, 0.03, 0.08, 0.30, 0.75, 0.95, 1.00, 0.90, 0.55, 0.80, 0.95, 0.90,
    0.80, 0.50, 0.20, 0.10, 0.06, 0.04, 0.03, 0.02,
];

impl Rhythm {
    /// The share of the highest load at a second of the day.
    pub fn share(self, second: i64) -> f64 {
        let hour = (second.rem_euclid(86_400)) as f64 / 3_600.0;
        let smooth = |table: &[f64; 24]| {
            let (at, part) = (hour as usize % 24, hour.fract());
            table[at] * (1.0 - part) + table[(at + 1) % 24] * part
        };
        match self {
            Self::Customers => smooth(&CUSTOMERS),
            Self::Office => smooth(&OFFICE),
            Self::Steady => 1.0,
            Self::Hourly => f64::from(u8::from(second.rem_euclid(3_600) < 240)),
        }
    }
}

/// An application.
pub struct App {
    pub user: &'static str,
    pub db: &'static str,
    /// Hosts and their addresses.
    pub hosts: &'static [(&'static str, &'static str)],
    pub tls: &'static str,
    /// Most connections.
    pub connections: usize,
    /// Statements in a second, at most.
    pub rate: f64,
    pub rhythm: Rhythm,
    /// After so many statements a connection ends.
    pub statements: u64,
    pub shapes: &'static [Shape],
}

/// A connection.
struct Session {
    conn: u64,
    conn_seq: u64,
    host: usize,
    /// When its last statement ends.
    free_us: i64,
    /// Statements until it ends.
    left: u64,
}

/// Numbers that the connections of a server share.
#[derive(Default)]
pub struct Numbers {
    pub conn: u64,
    pub query: u64,
}

/// A line, and when it is written.
pub type Planned = (i64, OwnedRecord);

/// Statements of more than this have a `running` line.
const RUNNING_US: u64 = 10_000_000;

/// An application that runs.
pub struct Crowd {
    app: &'static App,
    sessions: Vec<Session>,
    weights: u64,
}

impl Crowd {
    pub fn new(app: &'static App) -> Self {
        let weights = app.shapes.iter().map(|shape| u64::from(shape.weight)).sum();
        Self { app, sessions: Vec::new(), weights }
    }

    /// What it does in the second that begins then.
    pub fn second(
        &mut self,
        begin_us: i64,
        density: f64,
        numbers: &mut Numbers,
        random: &mut Random,
        planned: &mut Vec<Planned>,
    ) {
        let share = self.app.rhythm.share(begin_us / SECOND_US);
        let count = random.times(self.app.rate * density * share);
        let mut times: Vec<i64> =
            (0..count).map(|_| begin_us + random.below(SECOND_US as u64) as i64).collect();
        times.sort_unstable();
        for at_us in times {
            let Some(free) = self.session(at_us, numbers, random, planned) else { continue };
            // Waits behind others make a busy hour slower.
            self.statement(free, at_us, 1.0 + share, numbers, random, planned);
        }
    }

    /// A connection that is free, or a new one. `None`: all are busy.
    fn session(
        &mut self,
        at_us: i64,
        numbers: &mut Numbers,
        random: &mut Random,
        planned: &mut Vec<Planned>,
    ) -> Option<usize> {
        let free: Vec<usize> =
            (0..self.sessions.len()).filter(|&at| self.sessions[at].free_us < at_us).collect();
        let is_full = self.sessions.len() >= self.app.connections;
        if !free.is_empty() && (is_full || random.below(20) > 0) {
            return Some(*random.pick(&free));
        }
        if is_full {
            return None;
        }
        numbers.conn += 1;
        let mut session = Session {
            conn: numbers.conn,
            conn_seq: 0,
            host: random.below(self.app.hosts.len() as u64) as usize,
            free_us: at_us - 1,
            left: 1 + random.below(self.app.statements * 2),
        };
        let connected_us = at_us - 800 - random.below(2_000) as i64;
        let connect = OwnedRecord {
            outcome: Some(Outcome::Ok),
            tls: self.app.tls.into(),
            port: Some(32_000 + (session.conn * 7 % 28_000) as u16),
            ..self.record(&mut session, connected_us, EventKind::Connect)
        };
        planned.push((connected_us, connect));
        self.sessions.push(session);
        Some(self.sessions.len() - 1)
    }

    fn record(&self, session: &mut Session, ts_us: i64, event: EventKind) -> OwnedRecord {
        session.conn_seq += 1;
        let (host, ip) = self.app.hosts[session.host];
        OwnedRecord {
            ts_us,
            event: Some(event),
            conn: Some(session.conn),
            conn_seq: Some(session.conn_seq),
            user: self.app.user.into(),
            priv_user: self.app.user.into(),
            host: host.into(),
            ip: ip.into(),
            db: self.app.db.into(),
            ..OwnedRecord::default()
        }
    }

    fn statement(
        &mut self,
        at: usize,
        at_us: i64,
        slowness: f64,
        numbers: &mut Numbers,
        random: &mut Random,
        planned: &mut Vec<Planned>,
    ) {
        let mut which = random.below(self.weights);
        let shape = self.app.shapes.iter().find(|shape| {
            let is_it = which < u64::from(shape.weight);
            which = which.saturating_sub(u64::from(shape.weight));
            is_it
        });
        let Some(shape) = shape else { return };
        let mut session = self.sessions.swap_remove(at);
        numbers.query += 1;
        let mut record = self.record(&mut session, at_us, EventKind::Statement);
        record.query_id = Some(numbers.query);
        let took_us = fill(&mut record, shape, self.app.db, slowness, random);
        session.free_us = at_us + took_us as i64;
        session.left -= 1;
        push_statement(record, took_us, planned);
        if session.left > 0 {
            self.sessions.push(session);
        } else {
            let end_us = session.free_us + 200;
            let disconnect = self.record(&mut session, end_us, EventKind::Disconnect);
            planned.push((end_us, disconnect));
        }
    }

    /// Ends all connections, as a server does that stops.
    pub fn end(&mut self, at_us: i64, planned: &mut Vec<Planned>) {
        for mut session in std::mem::take(&mut self.sessions) {
            if session.free_us < at_us {
                let disconnect = self.record(&mut session, at_us, EventKind::Disconnect);
                planned.push((at_us, disconnect));
            }
        }
    }
}

/// Fills in what a statement of this shape does; how long it takes, µs.
pub fn fill(
    record: &mut OwnedRecord,
    shape: &Shape,
    db: &str,
    slowness: f64,
    random: &mut Random,
) -> u64 {
    record.command = "Query".into();
    record.sql_command = shape.command.into();
    record.sql = Some(shape.text(random).into());
    record.sql_redacted = shape.sql.contains("<secret>");
    record.sql_charset = "utf8mb4".into();
    record.tables = shape.tables(db);
    let fault = shape.error.filter(|(_, once_in)| random.below(*once_in) == 0);
    let took_us = match fault {
        Some((fault, _)) => {
            record.outcome = Some(Outcome::Error);
            record.errno = fault.errno;
            record.sqlstate = fault.sqlstate.into();
            record.error = fault.message.into();
            record.rows_sent = Some(0);
            fault.after_us + random.below(200)
        }
        None => {
            let rows = random.between(shape.rows);
            record.outcome = Some(Outcome::Ok);
            record.rows_sent = Some(if shape.sends_rows() { rows } else { 0 });
            record.rows_affected = (!shape.sends_rows()).then_some(rows);
            record.rows_examined = Some(rows * shape.examined);
            random.duration_us((shape.usual_us as f64 * slowness) as u64)
        }
    };
    record.query_time_us = Some(took_us);
    record.lock_time_us = Some(random.below(1 + took_us / 40));
    took_us
}

/// The lines of a statement: one, or two if it takes long.
pub fn push_statement(record: OwnedRecord, took_us: u64, planned: &mut Vec<Planned>) {
    let at_us = record.ts_us;
    if took_us > RUNNING_US {
        let running = OwnedRecord {
            outcome: Some(Outcome::Running),
            errno: 0,
            sqlstate: Vec::new(),
            error: Vec::new(),
            rows_sent: None,
            rows_examined: None,
            rows_affected: None,
            query_time_us: None,
            lock_time_us: None,
            ..record.clone()
        };
        planned.push((at_us + RUNNING_US as i64, running));
    }
    planned.push((at_us + took_us as i64, record));
}
