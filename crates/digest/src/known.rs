//! What came of texts that come again and again, but for their literals: a server executes few
//! shapes of statements, however many statements.
//!
//! A text whose [form](crate::form) was seen lately is not read as tokens: that costs its form, one
//! pass of a fast hash and one comparison. All of a form is compared, so that no two texts can
//! share a digest by accident or by design.

use crate::form::Form;
use crate::mode::Mode;
use crate::shapes::spread;
use crate::{Digest, Normalised};

/// Forms that are kept, at most; those whose fast hashes have the same last bits share a place.
/// A form has 2 KiB at most, and its normalised text some more: all together some 4 MiB.
const KNOWN_COUNT: usize = 512;

/// What came of the texts of one form.
#[derive(Clone, Default)]
pub(crate) struct Known {
    mode: Option<Mode>,
    form: Vec<u8>,
    text: Vec<u8>,
    hash: [u8; 16],
    is_broken: bool,
    is_given_up: bool,
}

/// See the module documentation.
pub(crate) struct KnownForms {
    form: Form,
    known: Vec<Known>,
}

impl KnownForms {
    pub(crate) fn new() -> KnownForms {
        KnownForms { form: Form::new(), known: Vec::new() }
    }

    /// The form of a text, if it has one, and the place where what came of it may be.
    #[inline]
    pub(crate) fn find(&mut self, text: &[u8], mode: &Mode) -> Option<(&[u8], &mut Known)> {
        let form = self.form.of(text, mode)?;
        if self.known.is_empty() {
            self.known.resize_with(KNOWN_COUNT, Known::default);
        }
        Some((form, &mut self.known[spread(form) as usize % KNOWN_COUNT]))
    }
}

impl Known {
    /// Whether it is what came of the texts of this form.
    #[inline]
    pub(crate) fn is_of(&self, form: &[u8], mode: &Mode) -> bool {
        self.form == form && self.mode.as_ref() == Some(mode)
    }

    /// Keeps what came of a text, all of it, in place of what was here.
    pub(crate) fn renew(&mut self, form: &[u8], mode: Mode, normalised: Normalised<'_>) {
        let Normalised { text, digest, is_broken, is_given_up, .. } = normalised;
        self.mode = Some(mode);
        self.form.clear();
        self.form.extend_from_slice(form);
        self.text.clear();
        self.text.extend_from_slice(text);
        (self.hash, self.is_broken, self.is_given_up) = (digest.0, is_broken, is_given_up);
    }

    #[inline]
    pub(crate) fn normalised(&self, text_bytes_max: usize) -> Normalised<'_> {
        Normalised {
            text: &self.text[..self.text.len().min(text_bytes_max)],
            is_cut: self.text.len() > text_bytes_max,
            digest: Digest(self.hash),
            is_broken: self.is_broken,
            is_given_up: self.is_given_up,
            out_of_memory: false,
        }
    }
}
