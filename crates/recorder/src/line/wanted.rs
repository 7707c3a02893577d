//! Decisions of the filter for records in the writer.

use tacho_filter::{Action, Coverage, Ended, Event, Facts, Program, Report, Session, Tables};
use tacho_record::TableUse;
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
    /// The tables that the server has reported.
    pub tables: &'e [TableUse<'e>],
    /// There may be other tables, for any kind of statement: the session had locked them before, or
    /// a table record is lost.
    pub is_partial: bool,
    /// For statements of this kind, the server may not report all tables.
    pub may_hide: bool,
    /// The server's name of its SQL command; empty: not known, or none.
    pub command: &'e [u8],
    /// Its text; empty: not known.
    pub text: &'e [u8],
}

/// For a statement; `view`: its start. `end` returns `None` if it has not ended.
// Usually there is no filter, and then no field is read for it.
#[inline(always)]
pub(super) fn statement<'e>(
    filter: &Program<'_>,
    view: &View<'_>,
    end: impl FnOnce() -> Option<End<'e>>,
) -> Action {
    if filter.is_empty() { Action::default() } else { judge(filter, *view, end()) }
}

#[inline(never)]
fn judge(filter: &Program<'_>, view: View<'_>, end: Option<End<'_>>) -> Action {
    let names = end.map(|end| names_of(end.tables)).unwrap_or_default();
    let ended = end.map(|end| Ended {
        sql_command: end.sql_command,
        errno: end.errno,
        tables: Some(
            Report {
                reported: &names,
                sql_command: end.command,
                errno: end.errno,
                text: end.text,
                db: view.string(STRING_DB),
                is_partial: end.is_partial,
                may_hide: end.may_hide,
            }
            .tables(),
        ),
    });
    let who = Session {
        user: view.string(STRING_USER),
        host: view.string(STRING_HOST),
        ip: view.string(STRING_IP),
        db: view.string(STRING_DB),
        command: view.string(STRING_COMMAND),
    };
    // Inside a stored program these are the definer and the program's database.
    let is_nested = view.body.present & PRESENT_NESTED != 0;
    let session = (!is_nested).then_some(who);
    filter.decide(&Facts { session, event: Event::Statement, ended }).action()
}

fn names_of<'t>(tables: &[TableUse<'t>]) -> Vec<(&'t [u8], &'t [u8])> {
    tables
        .iter()
        // A rename matches by both names.
        .flat_map(|table| [(table.db, table.table), (table.new_db, table.new_table)])
        .filter(|(_, table)| !table.is_empty())
        .collect()
}

/// For a record that has a line of its own. Connections, settings of the recorder, notices and
/// errors of unknown statements are always recorded.
pub(super) fn single(filter: &Program<'_>, view: &View<'_>) -> Action {
    match view.kind {
        RecordKind::Point => {
            let is_known = view.body.present & PRESENT_SQL_COMMAND != 0;
            let sql_command = is_known.then_some(view.body.sql_command);
            let errno = view.body.errno;
            // Its tables were reported before it, without a statement.
            let (tables, command, text) = (&[][..], &[][..], &[][..]);
            let (is_partial, may_hide) = (true, true);
            let end = End { sql_command, errno, tables, is_partial, may_hide, command, text };
            statement(filter, view, || Some(end))
        }
        RecordKind::Table => {
            let table = super::parts::table_of(view);
            let reported: &[_] = &[(table.db, table.table)];
            let tables = Some(Tables { reported, coverage: Coverage::Complete });
            let ended = Ended { sql_command: None, errno: 0, tables };
            // The strings of the record are those of the table.
            let facts = Facts { session: None, event: Event::Table, ended: Some(ended) };
            filter.decide(&facts).action()
        }
        // Redacted as the statements of its session are.
        RecordKind::Notice => {
            let Action { literals, no_text, .. } = statement(filter, view, || None);
            Action { literals: literals || no_text, ..Action::default() }
        }
        _ => Action::default(),
    }
}
