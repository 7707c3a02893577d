//! Zone: hot (matching), cold (compiling). Which statements are rewritten before they are parsed.
//!
//! A rule has a pattern, which is a statement with `?` where any literal may stand, and what is to
//! be executed instead (`docs/specs/rewrite.md`). [`mod@compile`] turns rules into a [`Program`]:
//! bytes without pointers. [`Program::find`] reads a statement token by token into a hash of
//! its shape, looks that up, and compares the statement with the rules that have it. Nothing
//! allocates or panics, so that a query thread may do it.
//!
//! Nearly all statements match no rule, and come again with other literals. [`form`] gives a
//! statement without its literals a number, much faster than its tokens can be read; which of
//! these match nothing, the probe keeps.
//!
//! | module | what it owns |
//! |---|---|
//! | `marks` | what a form asks of sixteen bytes |
//! | [`form`] | a keyed hash of a statement without its literals |
//! | `siphash` | the function behind it |
//! | [`reading`] | what the reading of a text depends on |
//! | [`lexer`], [`token`] | a statement's tokens |
//! | [`shape`] | their hash |
//! | [`program`] | the bytes of compiled rules |
//! | [`matching`] | a statement against the rules |
//! | [`compose`] | the new text |
//! | [`mod@compile`] | rules to bytes, with the place of what is wrong in them |

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

pub use matching::{Found, Statement};
pub use program::Program;
pub use reading::Reading;
