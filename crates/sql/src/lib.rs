//! Zone: outside (and the embedded writer thread); hot: `block`, `class`.
//!
//! Statement text: digests, and redaction of secrets. How the server splits a statement into tokens
//! is implemented once, here; `docs/specs/digest.md` and `docs/specs/redaction.md` are normative.
//!
//! | module | contents |
//! |---|---|
//! | [`digest`] | a statement without its literals, and its hash |
//! | [`redact`] | removes secrets from statement text, failing closed |
//! | [`grouping`] | characters that end in an ASCII byte |
//! | [`text`] | where quotes and comments end |
//! | [`words`] | the meaning of a word for the digest, for other readers of statements |
//! | [`class`] | the token that a byte can begin, and where a number ends |
//! | [`block`], `span` | sixteen bytes at a time, and sixty-four |
//! | `mode` | settings that the reading of a text depends on |
//!
//! Without the feature `std` it is `no_std` and has what query threads need (`crates/rewrite`),
//! which neither allocates nor panics. Why there are three lexers instead of one:
//! `docs/decisions/2026-11-25-three-lexers-of-statements.md`.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

pub mod block;
pub mod class;
#[cfg(feature = "std")]
pub mod digest;
#[cfg(feature = "std")]
pub mod grouping;
#[cfg(feature = "std")]
mod mode;
#[cfg(feature = "std")]
pub mod redact;
#[cfg(feature = "std")]
mod span;
#[cfg(feature = "std")]
pub mod text;
#[cfg(feature = "std")]
pub mod words;

#[cfg(feature = "std")]
pub use mode::{Doubt, High, Mode};
