//! From records in the arena to the bytes of a line.
//!
//! | module | what it owns |
//! |---|---|
//! | `statement` | the line of a statement: start, end, and what it has met |
//! | `single` | the line of a record that is one by itself |
//! | `texts` | the text of a line, and its digest |
//! | `secrets` | what of a text may go to the disk |
//! | `carry_over` | what is kept of records that leave the arena before their statement has ended |
//! | `style` | what all lines need, and writing them |
//! | `load` | a record read from the arena, its spill, or memory |
//! | `parts` | what the fields of a record become |
//! | `wanted` | what the filter says |
//! | `digests` | digests of texts |
//! | `calls` | which tables the server does not report |
//! | `notice` | lines about the server itself |

mod calls;
mod carry_over;
mod digests;
mod load;
mod notice;
mod parts;
mod secrets;
mod single;
mod statement;
mod style;
mod texts;
mod wanted;

pub use carry_over::{carry_over, is_rewritten, last_error};
pub use load::Shortfall;
pub use single::write_single;
pub use statement::{Statement, write_statement};
pub use style::{Scratch, Style, Written};
