//! Rollups: the records of a segment, counted by minute and by hour.
//!
//! A segment of level 1 and higher has a file with each beside it. The files are written from the
//! rows of the segment, listed and deleted with it. So a snapshot has records and rollups of the
//! same lines, and a statistic may read either.
//!
//! A row has the sums of the records with the same minute (or hour) and [`DIMENSIONS`]. Rows are
//! sums, so several rows of one key mean the same as one: the writer needs memory for one minute
//! of one server only, and less if that has too many keys.
//!
//! | module | contents |
//! |---|---|
//! | `groups` | the records of one minute or hour |
//! | `writer` | the file |
//! | `plan` | which files a statistic reads |
//! | `sql` | the views over them |

mod groups;
mod plan;
mod sql;
mod writer;

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Fields, Schema};

use crate::columns;

pub(crate) use plan::{Candidate, plan};
pub use plan::{Part, PartKind};
pub use sql::View;
pub(crate) use writer::{Rollups, RollupsWriter};

/// Columns of which a row of a rollup has one value. All records of the row have it.
pub const DIMENSIONS: &[&str] = &[
    "server",
    "run",
    "user",
    "host",
    "ip",
    "db",
    "event",
    "outcome",
    "digest",
    "sql_command",
    "errno",
];

/// Those of the dimensions by which connections are listed.
pub const CONNECTION_DIMENSIONS: &[&str] = &["server", "run", "user", "host", "ip", "db"];

/// Columns of which a row has the sum.
pub const SUMS: &[&str] =
    &["query_time_us", "lock_time_us", "rows_sent", "rows_examined", "rows_affected"];

/// The column of statement times: a histogram, encoded.
const TIMES: &str = "times";
/// The list column of connections.
const CONNS: &str = "conns";

fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, false))
}

/// The Arrow schema of a rollup: minute, dimensions, number of records, sums, times, connections.
pub fn schema() -> Arc<Schema> {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
        let records = columns::schema();
        let column = |name: &&str| {
            let (_, field) = match records.column_with_name(name) {
                Some(column) => column,
                None => unreachable!("a dimension is a column of a record"),
            };
            Arc::new(field.clone())
        };
        let mut fields: Vec<Arc<Field>> = [&"ts"].into_iter().map(column).collect();
        fields.extend(DIMENSIONS.iter().map(column));
        let number = |name: &str| Arc::new(Field::new(name, DataType::UInt64, false));
        fields.push(number("n"));
        fields.extend(SUMS.iter().map(|name| number(name)));
        let list = |name: &str, of| Arc::new(Field::new(name, DataType::List(item(of)), true));
        fields.push(Arc::new(Field::new(TIMES, DataType::Binary, true)));
        fields.push(list(CONNS, DataType::UInt64));
        Arc::new(Schema::new(Fields::from(fields)))
    });
    Arc::clone(&SCHEMA)
}
