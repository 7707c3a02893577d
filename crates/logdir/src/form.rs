//! Forms of the lines of a log file, and of its rendition.

/// Form of a log file, in order of trust: if a file exists in several forms, a crash has left the
/// later ones, and the first is the one to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Lines.
    Plain,
    /// Compressed.
    Compressed,
    /// Compressed, then encrypted.
    CompressedEncrypted,
    /// Encrypted.
    Encrypted,
    /// By columns: in the replica of a hub. The recorder does not make it.
    Columns,
}

impl Form {
    /// Those of the recorder, in their order.
    pub const ALL: [Form; 4] =
        [Form::Plain, Form::Compressed, Form::CompressedEncrypted, Form::Encrypted];
    /// Those that a reader of a log may find, in their order.
    pub const READABLE: [Form; 5] =
        [Form::Plain, Form::Compressed, Form::CompressedEncrypted, Form::Encrypted, Form::Columns];

    /// The ending of log files in this form.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Form::Plain => "jsonl",
            Form::Compressed => "jsonl.zst",
            Form::CompressedEncrypted => "jsonl.zst.age",
            Form::Encrypted => "jsonl.age",
            Form::Columns => "jsonl.tcol",
        }
    }

    /// The suffix of such a file's name after the ending of a plain one.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Form::Plain => "",
            Form::Compressed => ".zst",
            Form::CompressedEncrypted => ".zst.age",
            Form::Encrypted => ".age",
            Form::Columns => ".tcol",
        }
    }

    /// The ending while such a file is being created, and of the rest of it after a crash. (No file
    /// is packed into the plain form.)
    #[must_use]
    pub fn new_ending(self) -> &'static str {
        match self {
            Form::Plain => "jsonl.new",
            Form::Compressed => "jsonl.zst.new",
            Form::CompressedEncrypted => "jsonl.zst.age.new",
            Form::Encrypted => "jsonl.age.new",
            Form::Columns => "jsonl.tcol.new",
        }
    }

    /// The form of a file with this ending; `None`: it has no lines.
    #[must_use]
    pub fn of_ending(ending: &str) -> Option<Form> {
        Form::READABLE.into_iter().find(|form| form.ending() == ending)
    }

    /// Whether the recorder cannot read it.
    #[must_use]
    pub fn is_encrypted(self) -> bool {
        matches!(self, Form::Encrypted | Form::CompressedEncrypted)
    }

    /// Whether it is compressed.
    #[must_use]
    pub fn is_compressed(self) -> bool {
        matches!(self, Form::Compressed | Form::CompressedEncrypted)
    }

    /// The form that a closed file must get; `None`: it stays as it is. Compression and encryption
    /// are never undone.
    #[must_use]
    pub fn target(self, compress: bool, encrypt: bool) -> Option<Form> {
        let target = match (self, compress, encrypt) {
            (Form::Plain, true, true) | (Form::Compressed, _, true) => Form::CompressedEncrypted,
            (Form::Plain, true, false) => Form::Compressed,
            (Form::Plain, false, true) => Form::Encrypted,
            _ => return None,
        };
        Some(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_read_back_and_no_form_is_undone() {
        for form in Form::READABLE {
            assert_eq!(Form::of_ending(form.ending()), Some(form));
            assert_eq!(Form::of_ending(form.new_ending()), None);
            assert_eq!(form.target(false, false), None);
            for (compress, encrypt) in [(false, true), (true, false), (true, true)] {
                if let Some(target) = form.target(compress, encrypt) {
                    assert!(target > form);
                    assert_eq!(target.is_encrypted(), encrypt);
                    assert_eq!(target.target(compress, encrypt), None);
                }
            }
        }
    }
}
