//! What the filter says of a record that has come to the writer.

use tacho_event::record::{TableAccess, TableUse};
use tacho_filter::{Ended, Event, Facts, Program, Session, Treatment};
use tacho_ring::codec::{
    PRESENT_NESTED, PRESENT_SQL_COMMAND, RecordKind, STRING_COMMAND, STRING_DB, STRING_HOST,
    STRING_IP, STRING_USER, View,
};

/// How a statement ended, as far as it is known.
#[derive(Clone, Copy)]
pub(super) struct End<'e> {
    /// Number of its SQL command.
    pub sql_command: Option<i32>,
    /// Error number.
    pub errno: u32,
    /// What it has touched.
    pub tables: &'e [TableUse<'e>],
}

/// Of a statement; `view`: its start, `end`: `None` where it has not ended.
// Mostly there is no filter, and then nothing is read for it.
#[inline(always)]
pub(super) fn statement(filter: &Program<'_>, view: &View<'_>, end: Option<End<'_>>) -> Treatment {
    if filter.is_empty() { Treatment::default() } else { judge(filter, *view, end) }
}

#[inline(never)]
fn judge(filter: &Program<'_>, view: View<'_>, end: Option<End<'_>>) -> Treatment {
    let names = end.map(|end| names_of(end.tables)).unwrap_or_default();
    let ended = end.map(|end| Ended {
        sql_command: end.sql_command,
        errno: end.errno,
        // None is told of what a session has locked before, and of what failed early.
        tables: (!names.is_empty()).then_some(&names),
    });
    let who = Session {
        user: view.string(STRING_USER),
        host: view.string(STRING_HOST),
        ip: view.string(STRING_IP),
        db: view.string(STRING_DB),
        command: view.string(STRING_COMMAND),
    };
    // Inside of a stored program these are the definer and the program's database.
    let is_nested = view.body.present & PRESENT_NESTED != 0;
    let session = (!is_nested).then_some(who);
    filter.decide(&Facts { session, event: Event::Statement, ended }).treatment()
}

fn names_of<'t>(tables: &[TableUse<'t>]) -> Vec<(&'t [u8], &'t [u8])> {
    let is_asked_for = |table: &&TableUse<'_>| !is_of_the_optimizer(table);
    let only_those = tables.iter().any(|table| is_asked_for(&table));
    tables
        .iter()
        .filter(|table| !only_those || is_asked_for(table))
        // A rename is about both names.
        .flat_map(|table| [(table.db, table.table), (table.new_db, table.new_table)])
        .filter(|(_, table)| !table.is_empty())
        .collect()
}

/// The server reads these by itself for its plan of a statement (`sql_statistics.cc`, 10.11.19).
fn is_of_the_optimizer(table: &TableUse<'_>) -> bool {
    table.access == TableAccess::Read
        && table.db == b"mysql"
        && matches!(table.table, b"table_stats" | b"column_stats" | b"index_stats")
}

/// Of a record that is a line by itself. Connections, settings of the recorder, notices and errors
/// of unknown statements are always recorded.
pub(super) fn single(filter: &Program<'_>, view: &View<'_>) -> Treatment {
    match view.kind {
        RecordKind::Point => {
            let is_known = view.body.present & PRESENT_SQL_COMMAND != 0;
            let sql_command = is_known.then_some(view.body.sql_command);
            let end = End { sql_command, errno: view.body.errno, tables: &[] };
            statement(filter, view, Some(end))
        }
        RecordKind::Table => {
            let table = super::parts::table_of(view);
            let tables: &[_] = &[(table.db, table.table)];
            let ended = Ended { sql_command: None, errno: 0, tables: Some(tables) };
            // The strings of the record are those of the table.
            let facts = Facts { session: None, event: Event::Table, ended: Some(ended) };
            filter.decide(&facts).treatment()
        }
        // What its session's statements must not say, it must not either.
        RecordKind::Notice => {
            let Treatment { literals, no_text, .. } = statement(filter, view, None);
            Treatment { literals: literals || no_text, ..Treatment::default() }
        }
        _ => Treatment::default(),
    }
}
