//! The digests of statements, with a cache for repeated texts.
//!
//! A cached text costs one pass of a fast hash and one comparison of the whole text, so two texts
//! never share a digest by accident or by design.
//!
//! From its second line on, an ordinary text has all of its JSON in the cache: whether it has
//! a secret, and whether it needs an escape, is not looked for again.

use std::borrow::Cow;

use tacho_record::Record;
use tacho_record::charset::Charset;
use tacho_record::json;
use tacho_sql::digest::{Normaliser, TEXT_BYTES_DEFAULT, WRITTEN_BYTES, spread};
use tacho_sql::{Mode, redact};

/// Number of cache entries; a text's hash selects its entry.
const KNOWN_COUNT: usize = 1024;
/// Longest text in the cache, bytes.
const KNOWN_BYTES_MAX: usize = 2048;

/// Computes digests, see the module documentation.
pub(super) struct Digests {
    known: Vec<Known>,
    normaliser: Normaliser,
    /// Digest of the last text that was too long for the cache.
    long: [u8; WRITTEN_BYTES],
}

impl Default for Digests {
    fn default() -> Digests {
        let normaliser = Normaliser::default();
        Digests { known: Vec::new(), normaliser, long: [0; WRITTEN_BYTES] }
    }
}

/// A text that is shown as it is if it has no secret.
#[derive(Clone, Copy)]
pub(super) struct Ordinary<'t> {
    /// The text, all of it.
    pub(super) text: &'t [u8],
    /// The setting for its redaction, which [`redact::Setting::is_ordinary`] calls ordinary.
    pub(super) setting: redact::Setting,
    /// Its character set.
    pub(super) charset: &'static Charset,
}

/// What the cache has of a text, and the number of its entry.
#[derive(Clone, Copy)]
pub(super) enum Found {
    /// It is too long for the cache.
    Long,
    /// The entry has another text: the hash of this one.
    New(u64),
    /// Its digest.
    Digest(usize),
    /// Its JSON, too.
    Json(usize),
}

/// An entry.
struct Known {
    /// Hash of the text.
    hash: u64,
    /// The text. Or, if `repetition` says so, the JSON of its fields, which has the text as it is:
    /// one piece of memory is compared and copied.
    bytes: Vec<u8>,
    mode: Option<Mode>,
    digest: [u8; WRITTEN_BYTES],
    repetition: Repetition,
}

/// What is known of a text beside its digest.
#[derive(Clone, Copy)]
enum Repetition {
    /// It has been in one line.
    None,
    /// The JSON of its fields, in this character set; the text in it has this length.
    Json(&'static Charset, usize),
    /// It has a secret, or the JSON does not have it as it is.
    Special,
}

/// The JSON before a text.
const BEFORE_TEXT: &[u8] = b",\"sql\":\"";

impl Digests {
    /// Looks for an ordinary text.
    #[inline(never)]
    pub(super) fn find(&mut self, ordinary: &Ordinary<'_>) -> Found {
        let Ordinary { text, setting, charset } = ordinary;
        let Some(mode) = setting.digest_mode() else { return Found::Long };
        let found = self.look(text, mode);
        let Found::Digest(index) = found else { return found };
        let known = &mut self.known[index];
        let has_json = match known.repetition {
            Repetition::Json(of, _) => std::ptr::eq(of, *charset),
            Repetition::None => known.learn(ordinary),
            Repetition::Special => false,
        };
        if has_json { Found::Json(index) } else { found }
    }

    // In place in its two callers: it is short.
    #[inline(always)]
    fn look(&mut self, text: &[u8], mode: Mode) -> Found {
        if text.len() > KNOWN_BYTES_MAX {
            return Found::Long;
        }
        if self.known.is_empty() {
            self.known.resize_with(KNOWN_COUNT, Known::default);
        }
        let hash = spread(text);
        let index = entry_of(hash);
        let known = &self.known[index];
        if known.hash == hash && known.text() == text && known.mode == Some(mode) {
            Found::Digest(index)
        } else {
            Found::New(hash)
        }
    }

    /// JSON of the fields from `sql` to `digest`, of an entry that has it.
    #[inline]
    pub(super) fn json(&self, index: usize) -> &[u8] {
        &self.known[index].bytes
    }

    /// The digest of `text`, in its written form. `found`: what the cache has of it, if that is
    /// known.
    #[inline]
    pub(super) fn of(
        &mut self,
        found: Option<Found>,
        text: &[u8],
        mode: Mode,
    ) -> &[u8; WRITTEN_BYTES] {
        let found = found.unwrap_or_else(|| self.look(text, mode));
        let Digests { known, normaliser, long } = self;
        match found {
            Found::Long => {
                *long = written(normaliser, text, mode);
                long
            }
            Found::New(hash) => {
                let known = &mut known[entry_of(hash)];
                known.hash = hash;
                known.renew(normaliser, text, mode)
            }
            Found::Digest(index) | Found::Json(index) => &known[index].digest,
        }
    }

    /// For texts without literals.
    pub(super) fn normaliser(&mut self) -> &mut Normaliser {
        &mut self.normaliser
    }

    /// Frees the memory of a huge text, beyond `bytes`.
    pub(super) fn shrink(&mut self, bytes: usize) {
        self.normaliser.shrink(bytes);
    }
}

impl Default for Known {
    fn default() -> Known {
        let digest = [0; WRITTEN_BYTES];
        Known { hash: 0, bytes: Vec::new(), mode: None, digest, repetition: Repetition::None }
    }
}

impl Known {
    #[inline]
    fn text(&self) -> &[u8] {
        match self.repetition {
            Repetition::None | Repetition::Special => &self.bytes,
            Repetition::Json(_, bytes) => &self.bytes[BEFORE_TEXT.len()..][..bytes],
        }
    }

    #[inline(never)]
    fn renew(
        &mut self,
        normaliser: &mut Normaliser,
        text: &[u8],
        mode: Mode,
    ) -> &[u8; WRITTEN_BYTES] {
        self.bytes.clear();
        self.bytes.extend_from_slice(text);
        self.repetition = Repetition::None;
        self.mode = Some(mode);
        self.digest = written(normaliser, text, mode);
        &self.digest
    }

    /// The text is repeated. Returns whether `bytes` has its JSON now.
    #[inline(never)]
    fn learn(&mut self, of: &Ordinary<'_>) -> bool {
        let Ordinary { text, setting, charset } = *of;
        self.repetition = Repetition::Special;
        if matches!(redact::secrets(text, setting), Cow::Owned(_)) {
            return false;
        }
        let mut json = Vec::with_capacity(text.len() + 128);
        let digest = &self.digest;
        let record =
            Record { sql: Some(text), charset: Some(charset), digest, ..Record::default() };
        json::write_text(&mut json, &record);
        let rest = json.strip_prefix(BEFORE_TEXT).and_then(|rest| rest.strip_prefix(text));
        if rest.is_none_or(|rest| rest.first() != Some(&b'"')) {
            return false;
        }
        self.bytes = json;
        self.repetition = Repetition::Json(charset, text.len());
        true
    }
}

fn entry_of(hash: u64) -> usize {
    hash as usize % KNOWN_COUNT
}

fn written(normaliser: &mut Normaliser, text: &[u8], mode: Mode) -> [u8; WRITTEN_BYTES] {
    normaliser.normalise(text, mode, TEXT_BYTES_DEFAULT).digest.written()
}

#[cfg(test)]
mod tests {
    use tacho_sql::High;
    use tacho_sql::grouping::Grouping;

    use super::*;

    #[test]
    fn digests_are_those_of_the_texts_whatever_was_kept() {
        let mut digests = Digests::default();
        let modes = [Grouping::Bytes, Grouping::Sjis].map(|set| Mode::new(set, High::LETTERS));
        for _ in 0..2 {
            for number in 0..5_000 {
                let mut text = format!("SELECT a{}, '\u{95}\\', {number}", number % 3).into_bytes();
                text.resize(text.len() + number, b' ');
                for mode in modes {
                    let expected = written(&mut Normaliser::default(), &text, mode);
                    assert_eq!(digests.of(None, &text, mode), &expected);
                }
            }
        }
    }
}
