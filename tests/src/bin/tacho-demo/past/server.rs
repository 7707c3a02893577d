//! A server: applications and events, in the order of time, into its log.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use tacho_record::{EventKind, Outcome, OwnedRecord};

use super::clock::SECOND_US;
use super::crowd::{App, Crowd, Numbers, Planned};
use super::log::ServerLog;
use super::random::Random;
use super::visit::Visit;

/// What a server is, and what happens to it.
pub struct Plan {
    /// Its name in the hub.
    pub name: &'static str,
    /// Server and version, as the recorder writes it.
    pub version: &'static str,
    pub apps: &'static [&'static App],
    /// What happens, and how many minutes before the present.
    pub events: &'static [(i64, Happening)],
}

/// Something that happens once.
#[derive(Clone, Copy)]
pub enum Happening {
    /// A client connects.
    Visit(&'static Visit),
    /// Passwords are guessed for four minutes.
    Guessing,
    /// The recorder declares that records were lost.
    Lost(u64),
    /// Auditing is switched off, and on again after so many minutes.
    SwitchedOff(i64),
    /// The server stops, and starts after so many minutes.
    Stopped(i64),
    /// The server stops, and does not start again.
    StoppedForGood,
    /// A statement crashes the server.
    Crash,
}

/// A server that runs.
pub struct Server {
    plan: &'static Plan,
    log: ServerLog,
    crowds: Vec<Crowd>,
    density: f64,
    random: Random,
    numbers: Numbers,
    /// Lines that are not written yet, in the order of time.
    waiting: BTreeMap<(i64, u64), OwnedRecord>,
    /// The second that is planned next.
    next_us: i64,
    /// Events, and when they happen, the last one first.
    events: Vec<(i64, Happening)>,
    /// Nothing is recorded, or the server does not run, until then.
    quiet_until_us: Option<(i64, Quiet)>,
    planned: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Quiet {
    SwitchedOff,
    Stopped,
}

impl Server {
    /// Starts it at `begin_us`; the present is `now_us`.
    pub fn start(
        plan: &'static Plan,
        number: u64,
        root: &Path,
        (begin_us, now_us): (i64, i64),
        density: f64,
    ) -> Result<Self> {
        let mut log = ServerLog::new(root, plan.name, plan.version)?;
        log.start(begin_us)?;
        let time = |minutes: i64| now_us - minutes * 60 * SECOND_US;
        let mut events: Vec<_> = plan.events.iter().map(|&(at, what)| (time(at), what)).collect();
        events.sort_by_key(|&(at_us, _)| std::cmp::Reverse(at_us));
        Ok(Self {
            plan,
            log,
            crowds: plan.apps.iter().copied().map(Crowd::new).collect(),
            density,
            random: Random::new(number),
            numbers: Numbers::default(),
            waiting: BTreeMap::new(),
            next_us: begin_us,
            events,
            quiet_until_us: None,
            planned: 0,
        })
    }

    /// Its name in the hub.
    pub fn name(&self) -> &'static str {
        self.plan.name
    }

    /// Its log.
    pub fn log(&mut self) -> &mut ServerLog {
        &mut self.log
    }

    /// Writes all that happens before `now_us`.
    pub fn advance(&mut self, now_us: i64) -> Result<()> {
        while self.next_us + SECOND_US <= now_us {
            let begin_us = self.next_us;
            self.next_us += SECOND_US;
            self.second(begin_us)?;
        }
        self.log.flush(self.next_us)
    }

    fn second(&mut self, begin_us: i64) -> Result<()> {
        if let Some((_, quiet)) = self.quiet_until_us.filter(|&(until, _)| begin_us >= until) {
            self.quiet_until_us = None;
            match quiet {
                Quiet::SwitchedOff => self.switched(begin_us, "OFF", "ON")?,
                Quiet::Stopped => self.restart(begin_us)?,
            }
        }
        let mut planned = Vec::new();
        while self.events.last().is_some_and(|&(at_us, _)| at_us <= begin_us) {
            let Some((at_us, event)) = self.events.pop() else { break };
            self.happen(event, at_us, &mut planned)?;
        }
        if self.quiet_until_us.is_none() && self.log.is_recording() {
            for crowd in &mut self.crowds {
                let (numbers, random) = (&mut self.numbers, &mut self.random);
                crowd.second(begin_us, self.density, numbers, random, &mut planned);
            }
        }
        self.wait_for(planned);
        self.write_until(begin_us + SECOND_US)
    }

    fn wait_for(&mut self, planned: Vec<Planned>) {
        for (at_us, record) in planned {
            self.planned += 1;
            self.waiting.insert((at_us, self.planned), record);
        }
    }

    fn write_until(&mut self, until_us: i64) -> Result<()> {
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 >= until_us {
                break;
            }
            self.log.write(first.remove())?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Happening, at_us: i64, planned: &mut Vec<Planned>) -> Result<()> {
        match event {
            Happening::Visit(visit) => {
                visit.plan(at_us, &mut self.numbers, &mut self.random, planned);
            }
            Happening::Guessing => self.guess(at_us, planned),
            Happening::Lost(count) => self.log.write(OwnedRecord {
                ts_us: at_us,
                start_ts_us: Some(at_us - 1_400_000),
                event: Some(EventKind::Lost),
                count: Some(count),
                cause: "timeout".into(),
                ..OwnedRecord::default()
            })?,
            Happening::SwitchedOff(minutes) => {
                self.switched(at_us, "ON", "OFF")?;
                self.waiting.clear();
                self.quiet_until_us = Some((at_us + minutes * 60 * SECOND_US, Quiet::SwitchedOff));
            }
            Happening::Stopped(minutes) => {
                self.stop(at_us)?;
                self.quiet_until_us = Some((at_us + minutes * 60 * SECOND_US, Quiet::Stopped));
            }
            Happening::StoppedForGood => self.stop(at_us)?,
            Happening::Crash => self.crash(at_us)?,
        }
        Ok(())
    }

    /// All connections end, then the recorder stops.
    fn stop(&mut self, at_us: i64) -> Result<()> {
        self.write_until(at_us)?;
        self.waiting.clear();
        let mut planned = Vec::new();
        for crowd in &mut self.crowds {
            crowd.end(at_us, &mut planned);
        }
        self.wait_for(planned);
        self.write_until(at_us + 1)?;
        self.log.stop(at_us + 1_000)
    }

    fn restart(&mut self, at_us: i64) -> Result<()> {
        self.numbers = Numbers::default();
        self.log.start(at_us)
    }

    /// The server dies in a statement, and starts again at once: recovery finds the statement.
    fn crash(&mut self, at_us: i64) -> Result<()> {
        self.write_until(at_us)?;
        self.waiting.clear();
        self.crowds = self.plan.apps.iter().copied().map(Crowd::new).collect();
        self.numbers.conn += 1;
        let event = |conn_seq: u64, event: EventKind, outcome: Outcome| OwnedRecord {
            ts_us: at_us + conn_seq as i64 * 1_000,
            event: Some(event),
            outcome: Some(outcome),
            conn: Some(self.numbers.conn),
            conn_seq: Some(conn_seq),
            user: "ci".into(),
            priv_user: "ci".into(),
            host: "runner2.example".into(),
            ip: "10.20.7.62".into(),
            db: "staging".into(),
            ..OwnedRecord::default()
        };
        self.log.write(event(1, EventKind::Connect, Outcome::Ok))?;
        self.log.write(OwnedRecord {
            query_id: Some(self.numbers.query + 1),
            command: "Query".into(),
            sql: Some(
                "SELECT JSON_TABLE(body, '$[*]' COLUMNS (n INT PATH '$.n')) FROM t_events".into(),
            ),
            sql_charset: "utf8mb4".into(),
            ..event(2, EventKind::Statement, Outcome::Interrupted)
        })?;
        self.log.crash(at_us)?;
        self.restart(at_us + 2 * SECOND_US)
    }

    fn switched(&mut self, at_us: i64, old: &str, new: &str) -> Result<()> {
        self.write_until(at_us)?;
        self.log.write(OwnedRecord {
            ts_us: at_us,
            event: Some(EventKind::Config),
            conn: Some(self.numbers.conn),
            user: "root".into(),
            priv_user: "root".into(),
            host: "localhost".into(),
            variable: "tacho_logging".into(),
            old_value: old.into(),
            new_value: new.into(),
            ..OwnedRecord::default()
        })
    }

    /// Failed logins of many accounts from one address.
    fn guess(&mut self, at_us: i64, planned: &mut Vec<Planned>) {
        const USERS: [&str; 7] =
            ["root", "admin", "mysql", "backup", "test", "reporting", "wordpress"];
        let ip = "203.0.113.66";
        let mut ts_us = at_us;
        for _ in 0..170 {
            ts_us += 300_000 + self.random.below(2_200_000) as i64;
            self.numbers.conn += 1;
            let user = *self.random.pick(&USERS);
            let refused = OwnedRecord {
                ts_us,
                event: Some(EventKind::ConnectFailed),
                outcome: Some(Outcome::Error),
                conn: Some(self.numbers.conn),
                conn_seq: Some(1),
                user: user.into(),
                ip: ip.into(),
                errno: 1045,
                sqlstate: "28000".into(),
                error: format!("Access denied for user '{user}'@'{ip}' (using password: YES)")
                    .into(),
                ..OwnedRecord::default()
            };
            planned.push((ts_us, refused));
        }
    }
}
