//! Where a format has each field of the record.
//!
//! Each format says it in a `match` without a wildcard: a new field does not compile until all of
//! them have said what becomes of it. `tests/formats/places.rs` compares what they say with what
//! they write.

/// Where a format has a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In its own field of this name, or in what that is made of.
    In(&'static str),
    /// Under our own name, among what the format has no name for.
    Extension,
    /// Nowhere: `docs/specs/formats.md` says so.
    Nowhere,
}
