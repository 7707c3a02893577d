//! Results for texts that repeat with other literals: a server executes few shapes of statements,
//! however many statements.
//!
//! A text whose [form](crate::digest::form) is cached is not split into tokens: it costs its form,
//! one pass of a fast hash and one comparison. The whole form is compared, so that no two texts can
//! share a digest by accident or by design.
//!
//! A result is cached when its form occurs for the second time: most forms that occur once never
//! occur again, and would cost a copy and displace one that does. If no form repeats, few are
//! [looked up](crate::digest::prospect).

use crate::digest::form::Form;
use crate::digest::prospect::Prospect;
use crate::digest::shapes::spread;
use crate::digest::{Digest, Normalised};
use crate::mode::Mode;

/// Maximum number of cached forms; forms whose fast hashes have the same last bits share an entry.
/// A form has at most 2 KiB, and its normalised text a little more: about 4 MiB in total.
const KNOWN_COUNT: usize = 512;

/// The result for the texts of one form.
#[derive(Clone, Default)]
pub(crate) struct Known {
    mode: Option<Mode>,
    form: Vec<u8>,
    text: Vec<u8>,
    hash: [u8; 16],
    is_broken: bool,
    is_given_up: bool,
    /// The fast hash of the last form that is not cached here.
    came_once: u64,
}

/// See the module documentation.
pub(crate) struct KnownForms {
    form: Form,
    known: Vec<Known>,
    prospect: Prospect,
}

/// The entry of a form.
pub(crate) struct FormEntry<'k> {
    form: &'k [u8],
    /// Its fast hash.
    spread: u64,
    known: &'k mut Known,
    prospect: &'k mut Prospect,
}

impl KnownForms {
    pub(crate) fn new() -> KnownForms {
        KnownForms { form: Form::new(), known: Vec::new(), prospect: Prospect::default() }
    }

    /// The entry that may have the result for a text, if the text has a form and a lookup is
    /// worthwhile.
    #[inline]
    pub(crate) fn find(&mut self, text: &[u8], mode: &Mode) -> Option<FormEntry<'_>> {
        if !Form::may_be_of(text) || !self.prospect.is_good() {
            return None;
        }
        let form = self.form.of(text, mode)?;
        if self.known.is_empty() {
            self.known.resize_with(KNOWN_COUNT, Known::default);
        }
        let spread = spread(form);
        let known = &mut self.known[spread as usize % KNOWN_COUNT];
        Some(FormEntry { form, spread, known, prospect: &mut self.prospect })
    }
}

impl<'k> FormEntry<'k> {
    /// Whether it has the result for the texts of this form.
    #[inline]
    pub(crate) fn is_known(&mut self, mode: &Mode) -> bool {
        let is_known = self.known.form == self.form && self.known.mode.as_ref() == Some(mode);
        if is_known {
            self.prospect.found();
        }
        is_known
    }

    /// Whether the form probably occurred before, and is worth caching.
    #[inline]
    pub(crate) fn comes_again(&mut self) -> bool {
        let comes_again = self.known.came_once == self.spread;
        self.known.came_once = self.spread;
        comes_again
    }

    /// Caches the whole result for a text, and replaces the previous entry.
    pub(crate) fn renew(&mut self, mode: Mode, normalised: Normalised<'_>) {
        let Normalised { text, digest, is_broken, is_given_up, .. } = normalised;
        let known = &mut *self.known;
        known.mode = Some(mode);
        known.form.clear();
        known.form.extend_from_slice(self.form);
        known.text.clear();
        known.text.extend_from_slice(text);
        (known.hash, known.is_broken, known.is_given_up) = (digest.0, is_broken, is_given_up);
    }

    #[inline]
    pub(crate) fn normalised(self, text_bytes_max: usize) -> Normalised<'k> {
        let known = self.known;
        Normalised {
            text: &known.text[..known.text.len().min(text_bytes_max)],
            is_cut: known.text.len() > text_bytes_max,
            digest: Digest(known.hash),
            is_broken: known.is_broken,
            is_given_up: known.is_given_up,
            out_of_memory: false,
        }
    }
}
