//! What a line of a log says about a statement, as the recorder's filter sees it.

use std::collections::HashMap;

use tacho_filter::compile::Server;
use tacho_filter::program::USES_TABLE;
use tacho_filter::{Coverage, Decision, Ended, Event, Facts, Program, Report, Session, Tables};
use tacho_record::Field;
use tacho_record::line::members::FieldSet;

use crate::view::{NotTables, View};

/// What the filter would do with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is recorded whatever the filter says.
    Always,
    /// The line does not say enough: it is recorded.
    Undecided,
    /// Decided by a rule, or by the default.
    Decided {
        /// Its index; `None`: the default.
        rule: Option<usize>,
        /// It is not recorded.
        is_skipped: bool,
    },
}

/// Decides about lines.
pub struct Judge<'p> {
    program: Program<'p>,
    /// The number of each SQL command.
    numbers: HashMap<String, i32>,
}

impl<'p> Judge<'p> {
    /// With a filter that was compiled for `server`.
    pub fn new(program: Program<'p>, server: &Server) -> Self {
        let names = server.sql_commands.iter().cloned();
        Self { program, numbers: names.zip(0..).collect() }
    }

    /// The fields that it looks at.
    pub fn fields(&self) -> FieldSet {
        let mut fields: FieldSet = [
            Field::event,
            Field::outcome,
            Field::conn_seq,
            Field::user,
            Field::host,
            Field::ip,
            Field::db,
            Field::command,
            Field::sql_command,
            Field::errno,
            Field::blocked_by,
            Field::sql,
            Field::running_seq,
        ]
        .into_iter()
        .collect();
        if self.uses_tables() {
            fields.extend([Field::tables]);
        }
        fields
    }

    /// Whether a rule has `table`.
    pub fn uses_tables(&self) -> bool {
        self.program.uses() & USES_TABLE != 0
    }

    /// What the filter would do with a line.
    ///
    /// # Errors
    /// Its tables are damaged.
    pub fn fate(&self, line: &impl View) -> Result<Fate, NotTables> {
        match &*line.text(Field::event) {
            "statement" if !is_always_recorded(line) => self.of_statement(line),
            "table" => self.of_table(line),
            _ => Ok(Fate::Always),
        }
    }

    fn of_statement(&self, line: &impl View) -> Result<Fate, NotTables> {
        let texts = [Field::user, Field::host, Field::ip, Field::db, Field::command]
            .map(|field| line.text(field));
        let [user, host, ip, db, command] = texts.each_ref().map(|text| text.as_bytes());
        let session = Some(Session { user, host, ip, db, command });
        let sql_command = line.text(Field::sql_command);
        let number = match &*sql_command {
            // No SQL command: a parse error, a command that is not SQL.
            "" => Some(-1),
            name => self.numbers.get(name).copied(),
        };
        let errno = line.number(Field::errno).and_then(|errno| errno.try_into().ok()).unwrap_or(0);
        let event = Event::Statement;
        if !self.uses_tables() {
            let ended = Ended { sql_command: number, errno, tables: None };
            return Ok(self.decide(&Facts { session, event, ended: Some(ended) }));
        }
        let text = line.text(Field::sql);
        let mut fate = Fate::Undecided;
        line.tables(&mut |used| {
            let names = names_of(used);
            let report = Report {
                reported: &names,
                sql_command: sql_command.as_bytes(),
                errno,
                text: text.as_bytes(),
                db,
                // A line does not say whether the server reported all tables.
                is_partial: false,
                may_hide: false,
            };
            let tables = Some(report.tables());
            let ended = Ended { sql_command: number, errno, tables };
            fate = self.decide(&Facts { session, event, ended: Some(ended) });
        })?;
        Ok(fate)
    }

    /// A table that was used outside any statement.
    fn of_table(&self, line: &impl View) -> Result<Fate, NotTables> {
        let mut fate = Fate::Undecided;
        line.tables(&mut |used| {
            let names = names_of(used);
            let tables = Tables { reported: &names, coverage: Coverage::Complete };
            let ended = Ended { sql_command: None, errno: 0, tables: Some(tables) };
            fate = self.decide(&Facts { session: None, event: Event::Table, ended: Some(ended) });
        })?;
        Ok(fate)
    }

    fn decide(&self, facts: &Facts<'_>) -> Fate {
        match self.program.decide(facts) {
            Decision::Known(action) => {
                Fate::Decided { rule: self.program.decider(facts), is_skipped: action.skip }
            }
            Decision::Open(_) => Fate::Undecided,
        }
    }
}

/// Statements that ran for long or have no end, that a rule blocked, and errors of statements that
/// are not known.
fn is_always_recorded(line: &impl View) -> bool {
    matches!(&*line.text(Field::outcome), "running" | "interrupted")
        || line.number(Field::running_seq).is_some()
        || !line.text(Field::blocked_by).is_empty()
        || (line.text(Field::command).is_empty() && line.number(Field::conn_seq).is_none())
}

/// A rename matches by both names.
fn names_of<'t>(used: &'t [tacho_record::line::Touched<'_>]) -> Vec<(&'t [u8], &'t [u8])> {
    used.iter()
        .flat_map(|table| [(&table.db, &table.table), (&table.new_db, &table.new_table)])
        .filter(|(_, table)| !table.is_empty())
        .map(|(db, table)| (db.as_bytes(), table.as_bytes()))
        .collect()
}
