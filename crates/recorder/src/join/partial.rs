//! Where a record is: in one piece, or in fragments that come in one by one.

use crate::drain::{Head, Ref};

/// Where a record is.
#[derive(Clone, Debug)]
pub enum Place {
    /// In the arena: the record, and the further fragments of its text.
    Arena(Ref, Vec<Ref>),
    /// Its beginning was taken out of the arena before it was complete; the last fragments
    /// are still there.
    Memory(Box<EarlyRecord>, Vec<Ref>),
}

impl Place {
    /// Its records that are in the arena.
    pub fn refs(&self) -> Vec<Ref> {
        match self {
            Place::Arena(first, more) => std::iter::once(first).chain(more).copied().collect(),
            Place::Memory(_, more) => more.clone(),
        }
    }
}

/// A record in fragments that had to leave the arena.
#[derive(Clone, Debug, Default)]
pub struct EarlyRecord {
    /// The first fragment.
    pub first: Vec<u8>,
    /// The text as far as it was taken out, that of `first` included.
    pub text: Vec<u8>,
    /// Why there is none.
    pub no_text: Option<NoText>,
    /// How many of the fragments that were still in the arena when the record was complete
    /// have been added to `text`.
    pub gathered: usize,
}

/// Why a record is without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoText {
    /// A part of it cannot be read.
    Damaged,
    /// There was not enough memory for it.
    NoMemory,
}

/// A record in fragments whose end has not come yet.
#[derive(Debug)]
pub struct Partial {
    /// Head of its first fragment.
    pub head: Head,
    /// The first fragment, until it is taken out of the arena.
    pub first: Option<Ref>,
    /// The other fragments in the arena.
    pub more: Vec<Ref>,
    /// What was taken out.
    pub early: Option<Box<EarlyRecord>>,
    /// Its producer was told that it must wait for the line.
    pub awaited: bool,
    pub(super) next: u16,
}

impl Partial {
    pub(super) fn refs(&self) -> Vec<Ref> {
        self.first.iter().chain(&self.more).copied().collect()
    }

    pub(super) fn into_place(self) -> Place {
        match (self.first, self.early) {
            (Some(first), _) => Place::Arena(first, self.more),
            (None, early) => Place::Memory(early.unwrap_or_default(), self.more),
        }
    }
}
