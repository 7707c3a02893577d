//! Content of log files, plain (`.jsonl`), compressed (`.zst`), encrypted (`.age`) or both, read
//! from the start.

use std::cell::Cell;
use std::fs::{File, FileType};
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::identities::Identities;
use super::line_limit;
use super::reader::Placed;
use crate::form::Form;

/// Largest window of a compressed file, as a power of two: 128 MiB, the limit of `zstd` without
/// `--long`. A hostile file cannot make this program use more.
const WINDOW_LOG_MAX: u32 = 27;
pub(super) const BUFFER_BYTES: usize = 64 * 1024;

/// Which files can be read, and how long their lines may be.
pub struct Access {
    /// Keys for encrypted files.
    pub identities: Identities,
    /// Longest line that is kept in memory, bytes.
    pub line_bytes_max: usize,
}

impl Default for Access {
    /// Without keys.
    fn default() -> Self {
        Self { identities: Identities::default(), line_bytes_max: line_limit::LINE_BYTES_MAX }
    }
}

/// The form of a file, according to the end of its name.
pub fn form_of(path: &Path) -> Form {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".zst.age") {
        Form::CompressedEncrypted
    } else if name.ends_with(".age") {
        Form::Encrypted
    } else if name.ends_with(".zst") {
        Form::Compressed
    } else if name.ends_with(Form::Columns.suffix()) {
        Form::Columns
    } else {
        Form::Plain
    }
}

/// The lines in a stream of that form.
///
/// # Errors
/// [`Locked`](tacho_chain::verify::Locked) if none of the keys opens it; or it is malformed; or there is not enough memory.
pub fn unpack<'a>(
    source: impl Read + 'a,
    form: Form,
    identities: &Identities,
) -> io::Result<Box<dyn Read + 'a>> {
    let source: Box<dyn Read + 'a> =
        if form.is_encrypted() { identities.decrypt(source)? } else { Box::new(source) };
    if !form.is_compressed() {
        return Ok(source);
    }
    let mut decoder = zstd::Decoder::new(source)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(Box::new(decoder))
}

/// The lines in a file of that form, also of one that cannot be read as a stream.
///
/// # Errors
/// As [`unpack`].
pub fn unpack_file(file: File, form: Form, identities: &Identities) -> io::Result<Box<dyn Read>> {
    match form {
        Form::Columns => Ok(Box::new(tacho_columns::ColumnsReader::open(file)?.into_read())),
        form => unpack(file, form, identities),
    }
}

/// Opens a file of lines, unpacked according to its name.
///
/// # Errors
/// As [`unpack`], or the file cannot be opened.
pub fn open(path: &Path, identities: &Identities) -> io::Result<Box<dyn BufRead>> {
    let source = unpack_file(File::open(path)?, form_of(path), identities)?;
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, source)))
}

/// Checks that a file that the user named has lines of a log at its beginning or, if it is damaged
/// there, at its end. Packed files are not checked.
///
/// # Errors
/// It has none (kind `InvalidData`), or cannot be read.
pub fn check_is_log(path: &Path) -> io::Result<()> {
    const LOOK_BYTES: u64 = 64 << 10;
    if form_of(path) != Form::Plain {
        return Ok(());
    }
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut part = Vec::new();
    for start in [0, length.saturating_sub(LOOK_BYTES)] {
        file.seek(SeekFrom::Start(start))?;
        part.clear();
        (&file).take(LOOK_BYTES).read_to_end(&mut part)?;
        let mut lines = part.split(|byte| *byte == b'\n');
        if part.is_empty() || lines.any(|line| line.starts_with(b"{\"v\":")) {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "not a Tachograph log"))
}

/// Whether symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// The user gave this path.
    Follow,
    /// It was found in a log directory.
    Refuse,
}

impl Links {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`File::open`] or [`open_in_log`].
    pub fn open(self, path: &Path) -> io::Result<File> {
        match self {
            Links::Follow => File::open(path),
            Links::Refuse => open_in_log(path),
        }
    }
}

/// A log file that was opened.
pub enum Opened {
    /// It can be read at any position.
    Plain(File),
    /// It can only be read from its start; with its current path.
    Packed(PathBuf, Lines),
}

/// Opens a file in a log directory, where only regular files are valid: with a link, an account
/// that can write there could show any file of the system, and swap it while it is read.
///
/// # Errors
/// The file cannot be opened. The kind `InvalidData` without an error number: not a regular file.
pub fn open_in_log(path: &Path) -> io::Result<File> {
    // O_NONBLOCK has no effect on a regular file, and keeps a pipe from blocking the open.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let kind = match &opened {
        Ok(file) => file.metadata()?.file_type(),
        // A link, a socket or a device without a driver, rather than a missing permission.
        Err(error) => match path.symlink_metadata() {
            Ok(metadata) if error.kind() != io::ErrorKind::NotFound => metadata.file_type(),
            _ => return opened,
        },
    };
    match not_plain(kind) {
        Some(text) => Err(io::Error::new(io::ErrorKind::InvalidData, text)),
        None => opened,
    }
}

/// Describes a file that is not a regular one.
pub fn not_plain(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_symlink() {
        Some("a symbolic link, not a regular file: it is not followed")
    } else {
        Some("not a regular file")
    }
}

/// Opens a log file that was found at `path`, or its packed form: a file is packed into another
/// form before it is removed.
///
/// # Errors
/// As [`unpack`], or the file cannot be opened.
pub fn open_log(path: &Path, links: Links, access: &Access) -> io::Result<Opened> {
    let (path, file) = open_form(path, links)?;
    Ok(match form_of(&path) {
        Form::Plain => Opened::Plain(file),
        form => {
            let lines = Lines::of(file, form, access)?;
            Opened::Packed(path, lines)
        }
    })
}

/// Opens a log file that was found at `path` in the form that is there, with its current path.
///
/// # Errors
/// It cannot be opened.
pub(super) fn open_form(path: &Path, links: Links) -> io::Result<(PathBuf, File)> {
    let mut missing = None;
    for path in forms_from(path) {
        match links.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing.get_or_insert(error);
            }
            file => return file.map(|file| (path, file)),
        }
    }
    Err(missing.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// The text of a log file that was found at `path`, from its start.
///
/// # Errors
/// As [`open_log`].
pub fn read_log(path: &Path, links: Links, access: &Access) -> io::Result<Box<dyn BufRead>> {
    Ok(match open_log(path, links, access)? {
        Opened::Plain(file) => Box::new(BufReader::with_capacity(BUFFER_BYTES, file)),
        Opened::Packed(_, lines) => Box::new(lines.source),
    })
}

/// The path, and the paths of its packed forms.
fn forms_from(path: &Path) -> Vec<PathBuf> {
    let form = form_of(path);
    let text = path.as_os_str().to_string_lossy();
    let Some(stem) = text.strip_suffix(form.ending()) else { return vec![path.to_owned()] };
    // In the order in which a file can change its form. A hub stores plain lines by columns.
    let is_possible = |later: &Form| {
        *later >= form && (*later != Form::Columns || matches!(form, Form::Plain | Form::Columns))
    };
    let later = Form::READABLE.into_iter().filter(is_possible);
    later.map(|later| PathBuf::from(format!("{stem}{}", later.ending()))).collect()
}

/// A packed file as a stream of lines.
pub struct Lines {
    source: BufReader<Box<dyn Read>>,
    taken: Rc<Cell<u64>>,
    offset: u64,
    line: Vec<u8>,
    line_bytes_max: usize,
}

impl Lines {
    pub(super) fn of(file: File, form: Form, access: &Access) -> io::Result<Lines> {
        let taken = Rc::new(Cell::new(0));
        let source = match form {
            // It is read by frames, which have no order.
            Form::Columns => unpack_file(file, form, &access.identities)?,
            form => {
                let counted = Counted { file, taken: Rc::clone(&taken) };
                unpack(counted, form, &access.identities)?
            }
        };
        let source = BufReader::with_capacity(BUFFER_BYTES, source);
        let line_bytes_max = access.line_bytes_max;
        Ok(Lines { source, taken, offset: 0, line: Vec::new(), line_bytes_max })
    }

    /// The next line without its newline, its position in the unpacked content, and whether it is
    /// too long. A last line without a newline counts, too.
    ///
    /// # Errors
    /// The file cannot be read, or is malformed.
    pub fn next_line(&mut self) -> io::Result<Option<Placed<'_>>> {
        let offset = self.offset;
        let limit = self.line_bytes_max;
        let length = line_limit::read_until(&mut self.source, b'\n', &mut self.line, limit)?;
        self.offset += length.bytes;
        let bytes = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let is_too_long = length.is_too_long;
        Ok((length.bytes > 0).then_some(Placed { offset, bytes, is_too_long }))
    }

    /// Bytes that were read from the file since the last call.
    pub fn take_read_bytes(&self) -> u64 {
        self.taken.take()
    }
}

/// Counts bytes that are read.
struct Counted {
    file: File,
    taken: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.taken.set(self.taken.get() + count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use tacho_chain::verify::Locked;

    use super::*;

    #[test]
    fn a_file_that_was_packed_since_the_listing_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let at = |ending: &str| directory.path().join(format!("audit-1.{ending}"));
        let find = || open_log(&at("jsonl"), Links::Refuse, &Access::default());
        assert_eq!(find().err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
        let identity = age::x25519::Identity::generate();
        let text = b"{\"v\":1}\n";
        let encrypted = age::encrypt(&identity.to_public(), text).unwrap();
        std::fs::write(at("jsonl.age"), encrypted).unwrap();
        let error = find().err().expect("locked");
        assert!(error.get_ref().is_some_and(|inner| inner.is::<Locked>()), "{error}");
        let identities = Identities(vec![Box::new(identity)]);
        let access = Access { identities, ..Access::default() };
        let Ok(Opened::Packed(path, mut lines)) = open_log(&at("jsonl"), Links::Refuse, &access)
        else {
            panic!("it is there")
        };
        assert_eq!(path, at("jsonl.age"));
        let expected = Placed { offset: 0, bytes: &text[..7], is_too_long: false };
        assert_eq!(lines.next_line().unwrap(), Some(expected));
        std::fs::write(at("jsonl.zst"), zstd::encode_all(&text[..], 1).unwrap()).unwrap();
        assert!(matches!(find(), Ok(Opened::Packed(path, _)) if path == at("jsonl.zst")));
        std::fs::write(at("jsonl"), text).unwrap();
        assert!(matches!(find(), Ok(Opened::Plain(_))));
        // Forms are never undone: a plain file beside it is not its content.
        assert_eq!(forms_from(Path::new("x.jsonl.age")), [Path::new("x.jsonl.age")]);
        assert_eq!(forms_from(Path::new("saved.txt")), [Path::new("saved.txt")]);
    }

    #[test]
    fn a_file_of_a_hub_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |ending: &str| directory.path().join(format!("audit-1.{ending}"));
        let text = b"{\"v\":1}\n{\"v\":2}\n";
        crate::read::test_sink::columns(&at("jsonl.tcol"), text);
        // The hub has stored it since the listing.
        let access = Access::default();
        let (path, file) = open_form(&at("jsonl"), Links::Refuse).unwrap();
        assert_eq!(form_of(&path), Form::Columns);
        let mut lines = Lines::of(file, Form::Columns, &access).unwrap();
        let expected = Placed { offset: 0, bytes: &text[..7], is_too_long: false };
        assert_eq!(lines.next_line().unwrap(), Some(expected));
        let mut read = Vec::new();
        let mut source = read_log(&at("jsonl"), Links::Refuse, &access).unwrap();
        source.read_to_end(&mut read).unwrap();
        assert_eq!(read, text);
        open(&at("jsonl.tcol"), &access.identities).unwrap();
        std::fs::write(at("jsonl.tcol"), "junk").unwrap();
        let error = read_log(&at("jsonl"), Links::Refuse, &access).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
