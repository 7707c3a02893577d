//! Content and form of a file that is named like a log file, according to its ending.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use tacho_chain::SIDECAR_ENDING;
use tacho_format::Format;

use super::error::{At as _, FileError};
use super::form::Form;
use super::fs::Fs;
use super::name::FileName;

/// Name of the list of renditions.
pub(crate) const SECONDARY_LIST: &str = ".renditions";

/// Content of a file. A log file has its lines, and at most one rendition of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// The lines of the log.
    Lines,
    /// server_audit's CSV.
    Csv,
    /// Percona's JSON.
    PerconaJson,
    /// Percona's XML with elements.
    PerconaNew,
    /// Percona's XML with attributes.
    PerconaOld,
}

impl Content {
    /// All of them, lines first.
    pub const ALL: [Content; 5] = [
        Content::Lines,
        Content::Csv,
        Content::PerconaJson,
        Content::PerconaNew,
        Content::PerconaOld,
    ];

    /// The content of a rendition in this format; `None`: it is not written beside the log.
    pub(crate) fn of_format(format: Format) -> Option<Content> {
        match format {
            Format::Csv => Some(Content::Csv),
            Format::PerconaJson => Some(Content::PerconaJson),
            Format::PerconaNew => Some(Content::PerconaNew),
            Format::PerconaOld => Some(Content::PerconaOld),
            _ => None,
        }
    }

    /// The ending of a plain file with this content.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Content::Lines => "jsonl",
            Content::Csv => "csv",
            Content::PerconaJson => "percona.json",
            Content::PerconaNew => "new.xml",
            Content::PerconaOld => "old.xml",
        }
    }
}

/// Every ending of the recorder's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A complete file, or the one that is being written.
    File(Content, Form),
    /// A file that is being packed into this form, or the rest of it after a crash. (No file is
    /// packed into the plain form; a file with such a name is foreign, and is removed, too.)
    New(Content, Form),
    /// The seal of a log file.
    Sidecar,
}

/// Number of endings of each content, with those of forms that the recorder does not make.
const PER_CONTENT: u32 = 2 * Form::READABLE.len() as u32;

impl Ending {
    /// All of them, in the order in which they are removed. Renditions before the lines: without
    /// the lines they would stay for ever. Of the lines the plain form first: what remains is still
    /// complete. The sidecar last: a log file without a sidecar would look like one that was never
    /// sealed.
    pub(crate) fn all() -> impl Iterator<Item = Ending> {
        let [lines, renditions @ ..] = Content::ALL;
        let of = |content| {
            let file = Form::ALL.map(|form| Ending::File(content, form));
            file.into_iter().chain(Form::ALL.map(|form| Ending::New(content, form)))
        };
        renditions.into_iter().flat_map(of).chain(of(lines)).chain([Ending::Sidecar])
    }

    /// `None`: it is not the recorder's.
    pub(crate) fn parse(text: &str) -> Option<Ending> {
        if text == SIDECAR_ENDING {
            return Some(Ending::Sidecar);
        }
        let done = text.strip_suffix(".new");
        let rest = done.unwrap_or(text);
        // The longest suffix first: the suffix of the plain form is empty.
        let mut forms = Form::ALL;
        forms.sort_by_key(|form| std::cmp::Reverse(form.suffix().len()));
        let packed =
            forms.into_iter().find_map(|form| Some((rest.strip_suffix(form.suffix())?, form)));
        let (rest, form) = packed?;
        let content = Content::ALL.into_iter().find(|content| content.ending() == rest)?;
        Some(match done {
            Some(_) => Ending::New(content, form),
            None => Ending::File(content, form),
        })
    }

    fn bit(self) -> u64 {
        let index = match self {
            Ending::File(content, form) => content as u32 * PER_CONTENT + form as u32,
            Ending::New(content, form) => {
                content as u32 * PER_CONTENT + PER_CONTENT / 2 + form as u32
            }
            Ending::Sidecar => Content::ALL.len() as u32 * PER_CONTENT,
        };
        1 << index
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::File(content, form) => write!(f, "{}{}", content.ending(), form.suffix()),
            Ending::New(content, form) => write!(f, "{}{}.new", content.ending(), form.suffix()),
            Ending::Sidecar => f.write_str(SIDECAR_ENDING),
        }
    }
}

/// The existing parts of one log file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(u64);

impl Parts {
    fn insert(&mut self, ending: Ending) {
        self.0 |= ending.bit();
    }

    pub(crate) fn has(self, ending: Ending) -> bool {
        self.0 & ending.bit() != 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Ending> {
        Ending::all().filter(move |ending| self.has(*ending))
    }

    /// The form to read if a crash has left several; `None`: the content does not exist.
    pub(crate) fn best_form(self, content: Content) -> Option<Form> {
        Form::ALL.into_iter().find(|form| self.has(Ending::File(content, *form)))
    }

    pub(crate) fn has_lines(self) -> bool {
        self.best_form(Content::Lines).is_some()
    }

    /// A part of it is being created, or is incomplete after a crash.
    pub(crate) fn has_new(self) -> bool {
        self.iter().any(|ending| matches!(ending, Ending::New(..)))
    }
}

/// The parts of each log file.
pub(crate) fn list_parts<F: Fs>(
    fs: &F,
    dir: &Path,
) -> Result<BTreeMap<FileName, Parts>, FileError> {
    let mut all: BTreeMap<FileName, Parts> = BTreeMap::new();
    for entry in fs.list(dir).at("list", dir)? {
        let Some((name, ending)) = FileName::parse(&entry) else { continue };
        if let Some(ending) = Ending::parse(ending) {
            all.entry(name).or_default().insert(ending);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn endings_are_read_back_and_each_has_its_own_bit() {
        let all: Vec<Ending> = Ending::all().collect();
        let mut texts = BTreeSet::new();
        let mut bits = 0;
        for ending in &all {
            let text = ending.to_string();
            assert_eq!(Ending::parse(&text), Some(*ending), "{text}");
            assert_eq!(bits & ending.bit(), 0, "{text}");
            bits |= ending.bit();
            assert!(texts.insert(text));
        }
        assert_eq!(texts.len(), 41);
        for form in Form::ALL {
            assert!(texts.contains(form.ending()) && texts.contains(form.new_ending()));
            // A reader of the log must not mistake a rendition for lines.
            for content in &Content::ALL[1..] {
                let text = Ending::File(*content, form).to_string();
                assert_eq!(Form::of_ending(&text), None, "{text}");
            }
        }
        for text in
            ["", "jsonl.", "jsonl.age.zst", "csv.zst.zst", "xml", "json", "zst", ".new", "new"]
        {
            assert_eq!(Ending::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_form_to_read_is_the_least_processed_one() {
        let mut parts = Parts::default();
        assert!(!parts.has_lines());
        parts.insert(Ending::New(Content::Lines, Form::Compressed));
        parts.insert(Ending::File(Content::Csv, Form::Encrypted));
        assert!(!parts.has_lines() && parts.has_new());
        parts.insert(Ending::File(Content::Lines, Form::CompressedEncrypted));
        parts.insert(Ending::File(Content::Lines, Form::Compressed));
        assert_eq!(parts.best_form(Content::Lines), Some(Form::Compressed));
        assert_eq!(parts.best_form(Content::Csv), Some(Form::Encrypted));
        assert_eq!(parts.best_form(Content::PerconaOld), None);
        assert_eq!(parts.iter().count(), 4);
    }
}
