//! Zone: outside.
//!
//! The hub's index of records: Parquet segments, and the catalogue that lists them.
//!
//! The replica of the log is the truth. Everything here can be built again from it, so the store
//! has no data of its own. The format is specified in `docs/specs/store.md`.
//!
//! | module | contents |
//! |---|---|
//! | `columns` | the columns, derived from the table of fields in `tacho_record` |
//! | `digests` | the dictionary of digests |
//! | `lines` | lines of a log file into columns |
//! | `answer` | a row back into the line it came from |
//! | `segment` | one Parquet file |
//! | `catalogue` | segments, watermarks and totals, in SQLite |
//! | `snapshot` | the store at one moment |
//! | `store` | the open store, deletion of segments |
//! | `clear` | a store of another version is emptied |
//! | `rollup` | counts by minute beside the segments, and the views over them |
//! | `forget` | rows of removed files leave the index |
//! | `source` | new lines of a file of the replica |
//! | `merge` | the thread that merges segments |
//! | `table` | records as one Parquet file for other programs |
//! | `indexer` | the thread that indexes what has been landed |

mod answer;
mod catalogue;
mod clear;
mod columns;
mod digests;
mod forget;
mod indexer;
mod lines;
mod merge;
pub mod rollup;
mod segment;
mod snapshot;
mod source;
mod store;
mod table;

pub use answer::{AnswerError, line_json, record_json};
pub use catalogue::{FORMAT, FileKey, OriginTotals, Position};
pub use columns::{COLUMNS, Column, ColumnKind, schema};
pub use digests::normalised;
pub use forget::Forgotten;
pub use indexer::{Durable, Failure, Indexer, IndexerOptions, Report};
pub use merge::{MergeOptions, MergeReport, Merger, step as merge_step};
pub use segment::{SegmentError, SegmentInfo};
pub use snapshot::{Advance, Reader, Snapshot};
pub use store::{Store, StoreError};
pub use table::TableWriter;
