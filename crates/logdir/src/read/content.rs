//! What is in log files, plain (`.jsonl`), compressed (`.zst`), encrypted (`.age`) or both, read
//! from their start.

use std::cell::Cell;
use std::fs::{File, FileType};
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use age::DecryptError;
use tacho_chain::verify::Locked;

use super::line_limit;
use super::reader::Placed;
use crate::form::Form;

/// Largest window of a compressed file, as a power of two: 128 MiB, what `zstd` itself allows
/// without `--long`. A hostile file cannot make this program take more.
const WINDOW_LOG_MAX: u32 = 27;
const BUFFER_BYTES: usize = 64 * 1024;
/// What an encrypted file begins with.
const AGE_HEAD: &[u8] = b"age-encryption.org/";
/// What the last line of its header begins with.
const AGE_HEAD_END: &[u8] = b"---";
/// Longest header that is read. That of the recorder has two lines, some 100 bytes, for each
/// recipient, and one that age adds with a few more. The crate takes time with the square of it.
const AGE_HEAD_LINES_MAX: usize = 4096;
const AGE_HEAD_BYTES_MAX: usize = 256 * 1024;

/// Why a file gives no secret key.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// It cannot be read.
    #[error("{}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// A key in it is of a kind that is not supported.
    #[error("{}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: DecryptError,
    },
    /// It needs a key itself.
    #[error("{}: it is encrypted itself; decrypt it first (age --decrypt)", .0.display())]
    Encrypted(PathBuf),
    /// It has none.
    #[error("{}: there is no secret key (AGE-SECRET-KEY-1...) in it", .0.display())]
    Empty(PathBuf),
}

/// The secret keys that open encrypted files.
#[derive(Default)]
pub struct Identities(Vec<Box<dyn age::Identity + Send + Sync>>);

impl Identities {
    /// Reads files as `age-keygen` makes them.
    ///
    /// # Errors
    /// When one cannot be read, or has no key.
    pub fn read(paths: &[PathBuf]) -> Result<Identities, IdentityError> {
        let mut all = Vec::new();
        for path in paths {
            let unread = |error| IdentityError::Read { path: path.clone(), error };
            let mut file = BufReader::new(File::open(path).map_err(unread)?);
            if file.fill_buf().map_err(unread)?.starts_with(AGE_HEAD) {
                return Err(IdentityError::Encrypted(path.clone()));
            }
            let file = age::IdentityFile::from_buffer(file).map_err(unread)?;
            let keys = file.into_identities();
            let keys = keys.map_err(|error| IdentityError::Key { path: path.clone(), error })?;
            if keys.is_empty() {
                return Err(IdentityError::Empty(path.clone()));
            }
            all.extend(keys);
        }
        Ok(Identities(all))
    }

    /// What is in an encrypted stream.
    fn decrypt<'a>(&self, source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
        let told = |error: DecryptError| match error {
            DecryptError::Io(error) => error,
            DecryptError::NoMatchingKeys => Locked.into(),
            error => io::Error::new(io::ErrorKind::InvalidData, error),
        };
        let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
        let head = age_head(&mut source)?;
        let source = io::Cursor::new(head).chain(source);
        let decryptor = age::Decryptor::new_buffered(source).map_err(told)?;
        let keys = self.0.iter().map(|key| key.as_ref() as &dyn age::Identity);
        Ok(Box::new(decryptor.decrypt(keys).map_err(told)?))
    }
}

/// Reads the header of an encrypted file, up to the line that ends it. The crate `age` reads it
/// line by line and parses all of it after each, so it gets a short one.
fn age_head(source: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidData, text));
    let mut head = Vec::new();
    for _ in 0..AGE_HEAD_LINES_MAX {
        let start = head.len();
        let room = (AGE_HEAD_BYTES_MAX - start) as u64;
        source.by_ref().take(room).read_until(b'\n', &mut head)?;
        if !head.starts_with(AGE_HEAD) {
            return invalid("it does not begin as an encrypted file of age does".to_owned());
        }
        let line = &head[start..];
        if line.last() != Some(&b'\n') {
            if head.len() == AGE_HEAD_BYTES_MAX {
                break;
            }
            return invalid("the header of the encrypted file is not complete".to_owned());
        }
        if line.starts_with(AGE_HEAD_END) {
            return Ok(head);
        }
    }
    invalid(format!(
        "the header of the encrypted file is longer than {AGE_HEAD_LINES_MAX} lines or \
         {AGE_HEAD_BYTES_MAX} bytes"
    ))
}

/// What files may be read, and how long a line of theirs may be.
pub struct Access {
    /// What opens encrypted files.
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

/// In what form a file of this name is: of any name, what it ends with says so.
pub fn form_of(path: &Path) -> Form {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".zst.age") {
        Form::CompressedEncrypted
    } else if name.ends_with(".age") {
        Form::Encrypted
    } else if name.ends_with(".zst") {
        Form::Compressed
    } else {
        Form::Plain
    }
}

/// The lines in a stream of that form.
///
/// # Errors
/// [`Locked`], when none of the keys opens it; when it makes no sense; when there is no memory.
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

/// Opens a file of lines, unpacked as its name says.
///
/// # Errors
/// As [`unpack`], and when it cannot be opened.
pub fn open(path: &Path, identities: &Identities) -> io::Result<Box<dyn BufRead>> {
    let source = unpack(File::open(path)?, form_of(path), identities)?;
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, source)))
}

/// Checks that a file that the user named has lines of a log at its beginning or, if it is damaged
/// there, at its end. Files in other forms than plain text are not looked into.
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
    /// It can be read at any place.
    Plain(File),
    /// It can be read from its start only, and this is where it is.
    Packed(PathBuf, Lines),
}

/// Opens a file in a log directory. There are only plain files in it: a link would let whoever can
/// write there show any file of the system, and swap it while it is read.
///
/// # Errors
/// When it cannot be opened. An error of the kind `InvalidData`, without an error number: it is not
/// a plain file.
pub fn open_in_log(path: &Path) -> io::Result<File> {
    // O_NONBLOCK means nothing to a plain file, and keeps a pipe from blocking the open.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let kind = match &opened {
        Ok(file) => file.metadata()?.file_type(),
        // A link, a socket, a device without a driver: not for want of a right.
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

/// What a file is that is not a plain one.
pub fn not_plain(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_symlink() {
        Some("a symbolic link, not a plain file: it is not followed")
    } else {
        Some("not a plain file")
    }
}

/// Opens a log file that was seen at `path`, or what has become of it since: a file is packed into
/// another form before it goes.
///
/// # Errors
/// As [`unpack`], and when it cannot be opened.
pub fn open_log(path: &Path, links: Links, access: &Access) -> io::Result<Opened> {
    let mut missing = None;
    for path in forms_from(path) {
        let file = match links.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing.get_or_insert(error);
                continue;
            }
            file => file?,
        };
        return Ok(match form_of(&path) {
            Form::Plain => Opened::Plain(file),
            form => {
                let lines = Lines::of(file, form, access)?;
                Opened::Packed(path, lines)
            }
        });
    }
    Err(missing.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// The text of a log file that was seen at `path`, from its start.
///
/// # Errors
/// As [`open_log`].
pub fn read_log(path: &Path, links: Links, access: &Access) -> io::Result<Box<dyn BufRead>> {
    Ok(match open_log(path, links, access)? {
        Opened::Plain(file) => Box::new(BufReader::with_capacity(BUFFER_BYTES, file)),
        Opened::Packed(_, lines) => Box::new(lines.source),
    })
}

/// The path, and where the file is when it was packed since.
fn forms_from(path: &Path) -> Vec<PathBuf> {
    let form = form_of(path);
    let text = path.as_os_str().to_string_lossy();
    let Some(stem) = text.strip_suffix(form.ending()) else { return vec![path.to_owned()] };
    // In the order in which a file can go from one to the next.
    let later = Form::ALL.into_iter().filter(|later| *later >= form);
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
    fn of(file: File, form: Form, access: &Access) -> io::Result<Lines> {
        let taken = Rc::new(Cell::new(0));
        let counted = Counted { file, taken: Rc::clone(&taken) };
        let source = unpack(counted, form, &access.identities)?;
        let source = BufReader::with_capacity(BUFFER_BYTES, source);
        let line_bytes_max = access.line_bytes_max;
        Ok(Lines { source, taken, offset: 0, line: Vec::new(), line_bytes_max })
    }

    /// The next line without its newline, where it begins in what was packed, and whether it is too
    /// long. A last one without a newline is a line, too.
    ///
    /// # Errors
    /// When the file cannot be read, or makes no sense in its form.
    pub fn next_line(&mut self) -> io::Result<Option<Placed<'_>>> {
        let offset = self.offset;
        let limit = self.line_bytes_max;
        let length = line_limit::read_until(&mut self.source, b'\n', &mut self.line, limit)?;
        self.offset += length.bytes;
        let bytes = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let is_too_long = length.is_too_long;
        Ok((length.bytes > 0).then_some(Placed { offset, bytes, is_too_long }))
    }

    /// How much of the file was read since this was last asked, bytes.
    pub fn take_read_bytes(&self) -> u64 {
        self.taken.take()
    }
}

/// Counts what is read.
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
    use super::*;

    #[test]
    fn a_file_that_was_packed_since_it_was_seen_is_found() {
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
        // Nothing goes backwards: what is plain beside it is another file's leftover.
        assert_eq!(forms_from(Path::new("x.jsonl.age")), [Path::new("x.jsonl.age")]);
        assert_eq!(forms_from(Path::new("saved.txt")), [Path::new("saved.txt")]);
    }

    /// The crate would read all of it, and again after each line.
    #[test]
    fn a_long_age_header_is_refused_before_it_is_parsed() {
        struct Endless<'a>(&'a [u8], usize, Rc<Cell<u64>>);
        impl Read for Endless<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.iter_mut().for_each(|byte| {
                    *byte = self.0[self.1 % self.0.len()];
                    self.1 += 1;
                });
                self.2.set(self.2.get() + buffer.len() as u64);
                Ok(buffer.len())
            }
        }
        for rest in [&b"-> a\n\n"[..], b"-> X25519 x\nAAAA\n", b"x", b"\n", b"-> ", b"\0"] {
            let taken = Rc::new(Cell::new(0));
            let source = Endless(rest, 0, Rc::clone(&taken));
            let source = (&b"age-encryption.org/v1\n"[..]).chain(source);
            let error =
                unpack(source, Form::Encrypted, &Identities::default()).err().expect("refused");
            assert!(error.to_string().contains("longer than"), "{error}");
            assert!(
                taken.get() <= (AGE_HEAD_BYTES_MAX + 2 * BUFFER_BYTES) as u64,
                "{}",
                taken.get()
            );
        }
        for text in ["", "age-encryption.org/v1", "age-encryption.org/v1\n-> a\n", "-> a\n", "junk"]
        {
            let error = unpack(text.as_bytes(), Form::Encrypted, &Identities::default()).err();
            assert_eq!(error.expect("refused").kind(), io::ErrorKind::InvalidData, "{text}");
        }
    }

    #[test]
    fn what_the_recorder_may_write_is_read() {
        let keys: Vec<_> = (0..1000).map(|_| age::x25519::Identity::generate()).collect();
        let recipients: Vec<_> = keys.iter().map(age::x25519::Identity::to_public).collect();
        let recipients = recipients.iter().map(|key| key as &dyn age::Recipient);
        let encryptor = age::Encryptor::with_recipients(recipients).unwrap();
        let mut encrypted = Vec::new();
        let mut writer = encryptor.wrap_output(&mut encrypted).unwrap();
        io::Write::write_all(&mut writer, b"lines").unwrap();
        writer.finish().unwrap();
        let identities = Identities(vec![Box::new(keys[999].clone())]);
        let mut text = String::new();
        let mut source = unpack(&encrypted[..], Form::Encrypted, &identities).unwrap();
        source.read_to_string(&mut text).unwrap();
        assert_eq!(text, "lines");
    }

    #[test]
    fn what_is_no_identity_file_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let told = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Identities::read(std::slice::from_ref(&path)).err().expect("none");
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            format!("{error}: {}", cause.unwrap_or_default())
        };
        assert!(told("").contains("no secret key"));
        assert!(told("age-encryption.org/v1\n-> scrypt").contains("encrypted itself"));
        assert!(told("secret").contains("line 1") && !told("secret").contains("secret data"));
    }
}
