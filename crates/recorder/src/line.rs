//! From records in the arena to the bytes of a line.
//!
//! | module | content |
//! |---|---|
//! | `statement` | the line of a statement: start, end, errors and tables |
//! | `single` | the line of a record that has a line of its own |
//! | `texts` | the text of a line, and its digest |
//! | `shown_texts` | the texts of a statement |
//! | `secrets` | which part of a text may be written |
//! | `carry_over` | state of statements whose records leave the arena before their end |
//! | `style` | common parts of all lines, writing them |
//! | `load` | a record read from the arena, its spill, or memory |
//! | `parts` | the fields of a record in a line |
//! | `wanted` | decisions of the filter |
//! | `digests` | digests of texts, and what is known of repeated texts |
//! | `calls` | calls whose tables the server does not report |
//! | `notice` | lines about the server itself |
//! | `params` | parameters of prepared statements |
//! | `answer` | what the answer to a statement says |

mod answer;
mod calls;
mod carry_over;
mod digests;
mod load;
mod notice;
mod params;
mod parts;
mod secrets;
mod shown_texts;
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
