//! Zone: outside. A file of JSON lines by columns, a third as long as with zstd alone: a form for
//! complete log files.
//! `docs/specs/columns.md` is the normative text.
//!
//! It knows nothing of the record, and is exact for any bytes. A line is cut into its *shape* and
//! the values of its keys. Values of one key are a *column*, which is stored in the way that needs
//! least: as numbers, as numbers of *templates* with their literals, or as what follows from
//! another column. Everything that cannot be cut is stored as it is.
//!
//! Content is cut into frames of [`CONTENT_BYTES`], which are read independently, with the one
//! dictionary of shapes and templates that is behind them. A frame has a checksum of its content,
//! so bytes that were changed or cut are an error, and never other content.
//!
//! | module | contents |
//! |---|---|
//! | `bytes`, `stream`, `numbers` | numbers and bytes as stored |
//! | `time` | times as numbers |
//! | `pattern` | shapes and templates: texts with places |
//! | `line`, `template` | cuts a line, a text |
//! | `dictionary`, `learn` | the dictionary, and how it is made |
//! | `keyed`, `plan` | columns that follow from others |
//! | `rows`, `texts`, `encode` | from content to a frame |
//! | `decode`, `read_texts`, `write` | and back |
//! | `layout`, `writer`, `reader` | the file |

mod bytes;
mod decode;
mod dictionary;
mod encode;
mod keyed;
mod layout;
mod learn;
mod line;
mod numbers;
mod pattern;
mod plan;
mod read_texts;
mod reader;
mod rows;
mod stream;
mod template;
mod texts;
mod time;
mod write;
mod writer;

pub use layout::{CONTENT_BYTES, LENGTH_MAX};
pub use reader::{ColumnsReader, Sequential, length};
pub use writer::Writer;
