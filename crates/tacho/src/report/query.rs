//! Which lines a report counts, how they are grouped, and what is kept of them.

use regex::Regex;
use tacho_filter::class::Class;
use tacho_record::Field;
use tacho_record::line::members::FieldSet;

use super::kept::Which;
use super::key::By;
use super::list;
use super::stats::{self, Measure};
use crate::filter::Filter;
use crate::view::View;

/// The kinds of lines that a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Statements; with `--event` the events that it names.
    Statements,
    /// Logins and failed logins.
    Logins,
    /// Statements and logins that failed.
    Errors,
    /// Definitions.
    Ddl,
    /// Accounts, roles and privileges.
    Grants,
    /// Statements with a time.
    Slow,
    /// Logins, statements, and ends of sessions.
    Sessions,
}

/// A question about a log.
#[derive(Clone, Debug)]
pub struct Query {
    /// The kind of lines.
    pub subject: Subject,
    /// The fields of a group; empty for one group.
    pub by: Vec<By>,
    /// The order of groups.
    pub sort: Measure,
    /// The texts that are kept of each group.
    pub keep: &'static [Field],
    /// Of which of its lines.
    pub which: Which,
}

impl Query {
    /// Groups of statements.
    pub fn by(by: &[By], sort: Measure) -> Self {
        // The digest alone says nothing to a reader.
        let keep: &[Field] =
            if by.contains(&By::Digest) { &[Field::sql, Field::sql_charset] } else { &[] };
        let (by, which) = (by.to_vec(), Which::First);
        Self { subject: Subject::Statements, by, sort, keep, which }
    }

    /// The question of a built-in view. A list has no groups.
    pub fn view(subject: Subject, sort: Option<Measure>) -> Self {
        let (by, usual, keep, which): (&[By], _, &'static [Field], _) = match subject {
            Subject::Statements | Subject::Ddl | Subject::Grants => {
                (&[], Measure::Count, &[], Which::First)
            }
            Subject::Logins => {
                (&[By::User, By::Host], Measure::Count, &[Field::error], Which::Last)
            }
            Subject::Errors => {
                (&[By::Errno, By::User, By::Db], Measure::Count, &[Field::error], Which::Last)
            }
            Subject::Slow => {
                (&[By::Digest], Measure::Time, &[Field::sql, Field::sql_charset], Which::First)
            }
            Subject::Sessions => {
                let keep = &[Field::user, Field::host, Field::ip, Field::program];
                (&[By::Session], Measure::Time, keep, Which::First)
            }
        };
        Self { subject, by: by.to_vec(), sort: sort.unwrap_or(usual), keep, which }
    }

    /// Whether each line has a row of its own.
    pub fn is_list(&self) -> bool {
        matches!(self.subject, Subject::Ddl | Subject::Grants)
    }

    /// The fields that the report reads.
    pub fn fields(&self, filter: &Filter) -> FieldSet {
        let mut fields = filter.fields();
        fields.extend([Field::seq, Field::running_seq, Field::sql_command]);
        fields.extend(stats::FIELDS);
        fields.extend(self.by.iter().flat_map(|by| by.fields().iter().copied()));
        fields.extend(self.keep.iter().copied());
        if self.is_list() {
            fields.extend(list::FIELDS);
        }
        fields
    }
}

/// Chooses the lines that a report is about.
#[derive(Clone, Debug)]
pub struct Choice {
    subject: Subject,
    any_event: bool,
    /// MariaDB counts SET PASSWORD as SET.
    set_password: Regex,
}

impl Choice {
    /// The lines of a question, before the filter.
    pub fn new(query: &Query, filter: &Filter) -> Self {
        let set_password = Regex::new(r"(?i)^\s*SET\s+PASSWORD\b").expect("a regular expression");
        Self { subject: query.subject, any_event: filter.chooses_events(), set_password }
    }

    /// Whether a line is one of them.
    pub fn has(&self, line: &impl View) -> bool {
        let event = line.text(Field::event);
        let is_statement = event == "statement";
        let class = || Class::of(&line.text(Field::sql_command));
        match self.subject {
            Subject::Statements => is_statement || (self.any_event && event != "lost"),
            Subject::Logins => matches!(&*event, "connect" | "connect_failed" | "change_user"),
            Subject::Errors => line.text(Field::outcome) == "error" || event == "connect_failed",
            Subject::Ddl => is_statement && class() == Class::Ddl,
            Subject::Grants => {
                is_statement
                    && (class() == Class::Dcl
                        || (line.text(Field::sql_command) == "set_option"
                            && self.set_password.is_match(&line.text(Field::sql))))
            }
            Subject::Slow => is_statement && line.number(Field::query_time_us).is_some(),
            Subject::Sessions => {
                line.number(Field::conn).is_some()
                    && (is_statement || matches!(&*event, "connect" | "disconnect"))
            }
        }
    }
}
