//! What the filter says of a record whose statement has ended.

use tacho_event::record::{TableAccess, TableUse};
use tacho_filter::{Decision, Ended, Event, Facts, Program, Treatment};
use tacho_ring::codec::{
    RecordKind, STRING_COMMAND, STRING_DB, STRING_HOST, STRING_IP, STRING_USER, View,
};

/// Of a statement; `view`: its start.
pub(super) fn statement(
    filter: &Program<'_>,
    view: &View<'_>,
    sql_command: i32,
    errno: u32,
    tables: &[TableUse<'_>],
) -> Treatment {
    let is_asked_for = |table: &&TableUse<'_>| !is_of_the_optimizer(table);
    let only_those = tables.iter().any(|table| is_asked_for(&table));
    // A rename is about both names.
    let names: Vec<(&[u8], &[u8])> = tables
        .iter()
        .filter(|table| !only_those || is_asked_for(table))
        .flat_map(|table| [(table.db, table.table), (table.new_db, table.new_table)])
        .filter(|(_, table)| !table.is_empty())
        .collect();
    let ended = Ended { sql_command, errno, tables: Some(&names) };
    decide(filter, &facts(view, Event::Statement, ended))
}

/// The server reads these by itself for its plan of a statement (`sql_statistics.cc`, 10.11.19).
fn is_of_the_optimizer(table: &TableUse<'_>) -> bool {
    table.access == TableAccess::Read
        && table.db == b"mysql"
        && matches!(table.table, b"table_stats" | b"column_stats" | b"index_stats")
}

/// Of a record that is a line by itself. Connections, settings of the recorder and errors of
/// unknown statements are always recorded.
pub(super) fn single(filter: &Program<'_>, view: &View<'_>) -> Treatment {
    if filter.is_empty() {
        return Treatment::default();
    }
    match view.kind {
        RecordKind::Point => statement(filter, view, view.body.sql_command, view.body.errno, &[]),
        RecordKind::Table => {
            let table = super::parts::table_of(view);
            let ended =
                Ended { sql_command: -1, errno: 0, tables: Some(&[(table.db, table.table)]) };
            // The strings of the record are those of the table.
            let nobody = Facts {
                user: &[],
                host: &[],
                ip: &[],
                db: &[],
                command: &[],
                event: Event::Table,
                ended: Some(ended),
            };
            decide(filter, &nobody)
        }
        _ => Treatment::default(),
    }
}

fn facts<'f>(view: &View<'f>, event: Event, ended: Ended<'f>) -> Facts<'f> {
    Facts {
        user: view.string(STRING_USER),
        host: view.string(STRING_HOST),
        ip: view.string(STRING_IP),
        db: view.string(STRING_DB),
        command: view.string(STRING_COMMAND),
        event,
        ended: Some(ended),
    }
}

/// What stays open is recorded, whole.
fn decide(filter: &Program<'_>, facts: &Facts<'_>) -> Treatment {
    match filter.decide(facts) {
        Decision::Known(treatment) => treatment,
        Decision::Open => Treatment::default(),
    }
}
