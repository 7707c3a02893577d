//! Zone: outside.
//!
//! Queries by DuckDB, in processes of their own.
//!
//! A query may need any amount of memory and time, and may crash the engine. Ingest must not suffer
//! from it. So the hub never loads DuckDB itself: it starts itself again as `tacho-hub
//! query-worker`, and sends queries to that process. A worker has limits for memory, threads, time,
//! temporary space and the size of an answer; it can read the files of the store and nothing else;
//! and a new one takes its place if it dies.
//!
//! | module | contents |
//! |---|---|
//! | `pool` | the hub's side: workers, limits, cancellation |
//! | `frame` | the protocol between the two, over pipes |
//! | `worker` | the process: opens DuckDB, locks it down, runs one query at a time |
//! | `prescan` | which parts of the files can have a text at all |
//! | `rows` | rows of the files by their numbers, with all columns |
//! | `check` | what a user's SQL may refer to |
//! | `engine` | a safe interface to DuckDB's C functions |
//! | `aggregate` | `time_histogram`, which adds up the statement times of rollups |
//! | `value` | DuckDB's vectors to JSON |
//! | `library` | where the library is |
//! | `ffi` | the C functions, found in the library at run time |

mod aggregate;
mod check;
mod engine;
mod ffi;
mod frame;
mod library;
mod pool;
mod prescan;
mod rows;
mod value;
mod worker;

pub use frame::{ColumnInfo, FailureKind, Times};
pub use library::find_library;
pub use pool::{Answer, Cancel, Pool, QueryError, Request, Settings};
pub use prescan::{Needle, Prescan};
pub use rows::RowPlace;
pub use worker::run_worker;

/// A text as a literal of SQL.
pub fn literal(text: &str) -> String {
    // A zero byte ends no literal, but no text of a record can equal it either way.
    format!("'{}'", text.replace('\'', "''"))
}
