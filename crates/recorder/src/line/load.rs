//! Reads records out of the arena, each with its text in one piece.
//!
//! A text may be as large as `max_allowed_packet` allows, and the process is a database server: a
//! failed allocation of that size costs the text, not the server (`docs/SAFETY.md`).

use tacho_ring::codec::View;

use crate::drain::Drain;
use crate::join::{EarlyRecord, NoText, RecordPlace};

/// A record that was read.
pub(super) struct Loaded<'b> {
    /// Everything except its text.
    pub(super) view: View<'b>,
    /// Its text, as far as it was recorded.
    pub(super) text: Result<&'b [u8], NoText>,
}

/// Reusable buffers for one record.
#[derive(Default)]
pub(super) struct Buffers {
    record: Vec<u8>,
    text: Vec<u8>,
}

/// What is missing in lines.
#[derive(Debug, Default)]
pub struct Shortfall {
    /// Records that could not be read completely.
    pub damaged: u64,
    /// Size of the last text for which there was not enough memory.
    pub no_memory_bytes: Option<u64>,
}

impl Shortfall {
    fn note(&mut self, loaded: Option<&Loaded<'_>>) {
        match loaded.map(|loaded| (loaded.text, loaded.view.body.text_bytes)) {
            None | Some((Err(NoText::Damaged), _)) => self.damaged += 1,
            Some((Err(NoText::NoMemory), bytes)) => self.no_memory_bytes = Some(bytes.into()),
            Some((Ok(_), _)) => {}
        }
    }
}

impl Buffers {
    /// Reads a record and assembles its text. Notes the parts that cannot be read; `None`: no part
    /// can.
    // Inlined, with rare cases behind a call: fields that the caller does not use are not read.
    #[inline(always)]
    pub(super) fn load<'b>(
        &'b mut self,
        drain: &Drain,
        place: &'b RecordPlace,
        shortfall: &mut Shortfall,
    ) -> Option<Loaded<'b>> {
        match place {
            RecordPlace::Arena(at, more) if more.is_empty() => {
                let view = drain.fetch(*at, &mut self.record).and_then(View::decode);
                shortfall.damaged += u64::from(view.is_none());
                view.map(|view| Loaded { view, text: Ok(view.text) })
            }
            place => {
                let loaded = self.load_pieces(drain, place);
                shortfall.note(loaded.as_ref());
                loaded
            }
        }
    }

    #[inline(never)]
    fn load_pieces<'b>(&'b mut self, drain: &Drain, place: &'b RecordPlace) -> Option<Loaded<'b>> {
        let Buffers { record, text } = self;
        match place {
            RecordPlace::Memory(early, _) => {
                let view = View::decode(&early.first)?;
                Some(Loaded { view, text: early.text() })
            }
            RecordPlace::Torn(first, _) => {
                let view = View::decode(drain.fetch(*first, record)?)?;
                Some(Loaded { view, text: Err(NoText::Damaged) })
            }
            RecordPlace::Arena(first, more) => {
                let view = View::decode(drain.fetch(*first, record)?)?;
                text.clear();
                let mut joined = reserve(text, view.body.text_bytes);
                let mut piece = Vec::new();
                joined = joined.and_then(|()| append(text, Some(view.text)));
                for at in more {
                    let fragment = drain.fetch(*at, &mut piece).and_then(fragment_text);
                    joined = joined.and_then(|()| append(text, fragment));
                }
                Some(Loaded { view, text: joined.map(|()| &text[..]) })
            }
        }
    }

    /// Frees memory beyond `bytes` in each buffer.
    pub(super) fn shrink(&mut self, bytes: usize) {
        for buffer in [&mut self.record, &mut self.text] {
            if buffer.capacity() > bytes {
                *buffer = Vec::new();
            }
        }
    }
}

/// The text of a fragment of a record.
fn fragment_text(bytes: &[u8]) -> Option<&[u8]> {
    View::decode(bytes).map(|view| view.text)
}

/// Reserves space for a text of this length, or for the beginning of a large one: a damaged record
/// may have any length.
fn reserve(text: &mut Vec<u8>, text_bytes: u32) -> Result<(), NoText> {
    const RESERVED_BYTES_MAX: usize = 1 << 20;
    let bytes = (text_bytes as usize).min(RESERVED_BYTES_MAX);
    text.try_reserve_exact(bytes).map_err(|_| NoText::NoMemory)
}

fn append(text: &mut Vec<u8>, more: Option<&[u8]>) -> Result<(), NoText> {
    let more = more.ok_or(NoText::Damaged)?;
    text.try_reserve(more.len()).map_err(|_| NoText::NoMemory)?;
    text.extend_from_slice(more);
    Ok(())
}

impl EarlyRecord {
    /// Copies the first fragment of a record out of the arena.
    pub fn take_first(&mut self, bytes: &[u8]) {
        self.first = bytes.to_vec();
        let Some(view) = View::decode(&self.first) else { return };
        let part = reserve(&mut self.text, view.body.text_bytes);
        let added = part.and_then(|()| append(&mut self.text, Some(view.text)));
        self.keep(added);
    }

    /// Copies another fragment; `None`: it cannot be read.
    pub fn take_more(&mut self, bytes: Option<&[u8]>) {
        if self.no_text.is_none() {
            let added = append(&mut self.text, bytes.and_then(fragment_text));
            self.keep(added);
        }
    }

    /// A part of the text is gone.
    pub fn lose_text(&mut self) {
        self.keep(Err(NoText::Damaged));
    }

    fn keep(&mut self, added: Result<(), NoText>) {
        if let Err(reason) = added {
            self.no_text = Some(reason);
            self.text = Vec::new();
        }
    }

    fn text(&self) -> Result<&[u8], NoText> {
        self.no_text.map_or(Ok(&self.text), Err)
    }
}
