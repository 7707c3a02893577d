//! Where a record is: in one piece, or in fragments that arrive one by one.

use tacho_ring::session;

use crate::drain::{Head, Ref};

/// Where a record is.
#[derive(Clone, Debug)]
pub enum RecordPlace {
    /// In the arena: the record, and the further fragments of its text.
    Arena(Ref, Vec<Ref>),
    /// Its beginning was moved out of the arena before it was complete; the last fragments are
    /// still there.
    Memory(Box<EarlyRecord>, Vec<Ref>),
    /// As [`RecordPlace::Arena`], but some fragments in between are gone: moved out of the arena by
    /// a writer that died with them.
    Torn(Ref, Vec<Ref>),
}

impl RecordPlace {
    /// Its records that are in the arena.
    pub fn refs(&self) -> Vec<Ref> {
        match self {
            RecordPlace::Arena(first, more) | RecordPlace::Torn(first, more) => {
                std::iter::once(first).chain(more).copied().collect()
            }
            RecordPlace::Memory(_, more) => more.clone(),
        }
    }
}

/// A fragmented record that had to leave the arena.
#[derive(Clone, Debug, Default)]
pub struct EarlyRecord {
    /// The first fragment.
    pub first: Vec<u8>,
    /// The text as far as it was moved out, including that of `first`.
    pub text: Vec<u8>,
    /// Why there is no text.
    pub no_text: Option<NoText>,
    /// How many of the fragments that were still in the arena when the record was complete have
    /// been added to `text`.
    pub gathered: usize,
}

/// Why a record has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoText {
    /// A part of it cannot be read.
    Damaged,
    /// There was not enough memory for it.
    NoMemory,
}

/// A fragmented record whose last fragment has not arrived.
#[derive(Debug)]
pub struct Partial {
    /// Head of its first fragment.
    pub head: Head,
    /// The first fragment, while it is in the arena. It also stays there after it was copied to
    /// `early`, if there is space, so that the next writer knows whose record it is.
    pub first: Option<Ref>,
    /// The other fragments in the arena.
    pub more: Vec<Ref>,
    /// The part that was moved out.
    pub early: Option<Box<EarlyRecord>>,
    /// Fragments in between are gone, see [`RecordPlace::Torn`].
    pub is_torn: bool,
    /// Its producer has to wait for the line.
    pub awaited: bool,
    pub(super) next: u16,
}

impl Partial {
    /// Continues with this fragment; those in between are gone.
    pub(super) fn resume_with(&mut self, fragment_number: u16) {
        self.next = fragment_number;
        self.is_torn = true;
        if let Some(early) = &mut self.early {
            early.lose_text();
        }
    }

    /// Whether another thread recorded this in the name of the connection, as for `INSERT DELAYED`:
    /// that says nothing about the record in fragments. A connection with a slot numbers its own
    /// records. (The first number of an epoch shows no slot: fragments have it without one, too.)
    pub(super) fn is_of_other_thread(&self, head: &Head) -> bool {
        head.rec_no == 0 && session::number_in_epoch(self.head.rec_no) > 1
    }

    pub(super) fn refs(&self) -> Vec<Ref> {
        self.first.iter().chain(&self.more).copied().collect()
    }

    pub(super) fn into_place(self) -> RecordPlace {
        match (self.first, self.early) {
            (Some(first), None) if self.is_torn => RecordPlace::Torn(first, self.more),
            (Some(first), None) => RecordPlace::Arena(first, self.more),
            (first, early) => {
                let mut early = early.unwrap_or_default();
                // Already part of the text.
                early.gathered = usize::from(first.is_some());
                RecordPlace::Memory(early, first.into_iter().chain(self.more).collect())
            }
        }
    }
}
