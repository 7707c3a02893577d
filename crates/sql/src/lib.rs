//! Zone: outside (and the embedded writer thread); `bytes` also hot.
//!
//! Statement text: its digests, and secrets out of it. The server's way of cutting a statement
//! into tokens is written down once, here; `docs/specs/digest.md` and `docs/specs/redaction.md`
//! are normative.
//!
//! | module | what it owns |
//! |---|---|
//! | [`digest`] | a statement without its literals, and the hash of that |
//! | [`redact`] | secrets out of statement text, failing closed |
//! | [`grouping`] | characters that end in an ASCII byte |
//! | [`text`] | where quotes and comments end |
//! | [`words`] | what a word is to the digest, for other readers of statements |
//! | `class` | what a byte can begin |
//! | `block`, `span` | sixteen bytes at a time, and sixty-four |
//! | `mode` | what the reading of a text depends on |

mod block;
mod class;
pub mod digest;
pub mod grouping;
mod mode;
pub mod redact;
mod span;
pub mod text;
pub mod words;

pub use mode::{Doubt, High, Mode};
