//! The position of each field of the record in a format.
//!
//! Each format defines it in a `match` without a wildcard: a new field does not compile until every
//! format has a position for it. `tests/formats/places.rs` compares these definitions with the
//! output.

/// The position of a field in a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the format's own field of this name, or in a part of it.
    In(&'static str),
    /// Under our own name, among the extensions.
    Extension,
    /// Omitted: `docs/specs/formats.md` documents it.
    Nowhere,
}
