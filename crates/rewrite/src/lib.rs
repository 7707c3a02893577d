//! Zone: hot (matching), cold (compiling). Which statements are rewritten before they are parsed.
//!
//! A rule has a pattern, which is a statement with `?` for any literal, and the statement to
//! execute instead (`docs/specs/rewrite.md`). [`mod@compile`] turns rules into a [`Program`]: bytes
//! without pointers. [`Program::find`] reads a statement token by token into a hash of its shape,
//! looks that up, and compares the statement with the rules that have it. Nothing allocates or
//! panics, so a query thread may do it.
//!
//! Nearly all statements match no rule, and are repeated with other literals. [`form`] hashes a
//! statement without its literals, much faster than splitting it into tokens; the probe caches the
//! hashes that match nothing.
//!
//! | module | contents |
//! |---|---|
//! | `marks` | the special bytes of a form, sixteen at a time |
//! | [`form`] | a keyed hash of a statement without its literals |
//! | `siphash` | the hash function |
//! | [`reading`] | settings that the reading of a text depends on |
//! | [`lexer`], [`token`] | a statement's tokens |
//! | [`shape`] | their hash |
//! | [`program`] | the bytes of compiled rules |
//! | [`matching`] | compares a statement with the rules |
//! | [`compose`] | the new text |
//! | [`mod@compile`] | rules to bytes, with the position of errors |

#![cfg_attr(not(any(test, feature = "compile")), no_std)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

#[cfg(feature = "compile")]
pub mod compile;
pub mod compose;
pub mod form;
pub mod lexer;
mod marks;
pub mod matching;
pub mod program;
pub mod reading;
pub mod shape;
mod siphash;
pub mod token;

pub use matching::{RuleMatch, Statement};
pub use program::Program;
pub use reading::Reading;
