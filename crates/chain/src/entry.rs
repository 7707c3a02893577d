//! The entries of a sidecar: bytes and their meaning.
//!
//! Every entry has one spelling: it is formatted again and compared when it is read.

use std::fmt;

use crate::hash::Hash;
use crate::key::{VerifierKey, is_origin};

/// First line of an epoch's note; the algorithms follow from the version.
pub const EPOCH_HEAD: &str = "tachograph-epoch-v1";
/// First line of a tombstone.
pub const REMOVED_HEAD: &str = "tachograph-removed-v1";
/// First line of a tombstone whose reason version 1 does not have.
pub const REMOVED_HEAD_2: &str = "tachograph-removed-v2";
/// Begins the line of a frame.
pub const FRAME_HEAD: &str = "frame ";

/// An entry that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an entry of a sidecar")]
pub struct NotAnEntry;

/// Why an epoch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochReason {
    /// The first of a log: signed by the root.
    First,
    /// A new file was begun.
    Rotate,
    /// The recorder was started and found no signing key for a sealed directory.
    NoKey,
    /// The directory does not have what the recorder knew to be sealed.
    RolledBack,
    /// Another process changed the file that was being written.
    Damaged,
    /// So many files could not be sealed that some were given up.
    GivenUp,
}

impl EpochReason {
    const ALL: [(EpochReason, &str); 6] = [
        (EpochReason::First, "first"),
        (EpochReason::Rotate, "rotate"),
        (EpochReason::NoKey, "no-key"),
        (EpochReason::RolledBack, "rolled-back"),
        (EpochReason::Damaged, "damaged"),
        (EpochReason::GivenUp, "given-up"),
    ];

    /// Whether the chain continues from the entry before it.
    #[must_use]
    pub fn continues(self) -> bool {
        matches!(self, EpochReason::Rotate | EpochReason::Damaged)
    }

    /// Whether a root key signs it.
    #[must_use]
    pub fn is_by_root(self) -> bool {
        matches!(self, EpochReason::First | EpochReason::NoKey)
    }
}

/// Why a checkpoint was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointReason {
    /// The interval has passed.
    Interval,
    /// A recorder continues the file.
    Start,
    /// The file is complete and another one follows.
    Rotate,
    /// The recorder stopped in an orderly way.
    Stop,
}

impl CheckpointReason {
    const ALL: [(CheckpointReason, &str); 4] = [
        (CheckpointReason::Interval, "interval"),
        (CheckpointReason::Start, "start"),
        (CheckpointReason::Rotate, "rotate"),
        (CheckpointReason::Stop, "stop"),
    ];

    /// Whether another key signs the following checkpoints. After the last checkpoint of a file,
    /// that is the key of the next file's epoch.
    #[must_use]
    pub fn hands_over(self) -> bool {
        self != CheckpointReason::Rotate
    }
}

/// Why a file was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalReason {
    /// Older than the limit.
    Age,
    /// More bytes than the limit.
    Size,
    /// Requested by a user.
    Request,
    /// More files than the limit.
    Count,
}

impl RemovalReason {
    const ALL: [(RemovalReason, &str); 4] = [
        (RemovalReason::Age, "age"),
        (RemovalReason::Size, "size"),
        (RemovalReason::Request, "request"),
        (RemovalReason::Count, "count"),
    ];

    /// First line of a tombstone with this reason. Tombstones whose reason version 1 has stay in
    /// version 1, so that its readers can read them.
    fn head(self) -> &'static str {
        match self {
            Self::Age | Self::Size | Self::Request => REMOVED_HEAD,
            Self::Count => REMOVED_HEAD_2,
        }
    }
}

macro_rules! words {
    ($($type:ident),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (_, word) = $type::ALL.iter().find(|(value, _)| value == self).unwrap_or(&$type::ALL[0]);
                f.write_str(word)
            }
        }
        impl $type {
            fn parse(text: &str) -> Option<$type> {
                $type::ALL.iter().find(|(_, word)| *word == text).map(|(value, _)| *value)
            }
        }
    )*};
}
words!(EpochReason, CheckpointReason, RemovalReason);

/// The text of the note that begins an epoch, which is one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The root key.
    pub root: VerifierKey,
    /// 1, 2, 3 …
    pub number: u64,
    /// Signs the next epoch, and tombstones.
    pub key: VerifierKey,
    /// Signs the first checkpoint, which names the key of the next one.
    pub signer: VerifierKey,
    /// Why it begins.
    pub reason: EpochReason,
    /// Seconds since 1970-01-01 UTC.
    pub time_s: i64,
    /// The log file, without its directory.
    pub file: String,
    /// `seq` of the last line before it.
    pub seq: u64,
    /// The log file whose chain continues here.
    pub previous: Option<String>,
    /// The chain before it.
    pub chain: Hash,
}

impl Epoch {
    /// The text that is signed.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Epoch { root, number, key, signer, reason, time_s, file, seq, previous, chain } = self;
        let previous = previous.as_deref().unwrap_or("-");
        format!(
            "{EPOCH_HEAD}\nroot {root}\nepoch {number}\nkey {key}\nsigner {signer}\n\
             reason {reason}\ntime {time_s}\nfile {file}\nseq {seq}\nprevious {previous}\n\
             chain {}\n",
            chain.to_base64()
        )
    }

    /// Reads [`Epoch::to_text`].
    ///
    /// # Errors
    /// [`NotAnEntry`]
    pub fn parse(text: &str) -> Result<Epoch, NotAnEntry> {
        let mut fields = Fields::after(EPOCH_HEAD, text).ok_or(NotAnEntry)?;
        let mut read = || {
            Some(Epoch {
                root: fields.take("root")?.parse().ok()?,
                number: fields.number("epoch")?,
                key: fields.take("key")?.parse().ok()?,
                signer: fields.take("signer")?.parse().ok()?,
                reason: EpochReason::parse(fields.take("reason")?)?,
                time_s: fields.take("time")?.parse().ok()?,
                file: file_name(fields.take("file")?)?,
                seq: fields.number("seq")?,
                previous: match fields.take("previous")? {
                    "-" => None,
                    file => Some(file_name(file)?),
                },
                chain: Hash::from_base64(fields.take("chain")?)?,
            })
        };
        let epoch = read().ok_or(NotAnEntry)?;
        let is_sound = epoch.root.is_root()
            && epoch.key.origin() == epoch.root.origin()
            && epoch.signer.origin() == epoch.root.origin();
        if is_sound && epoch.to_text() == text { Ok(epoch) } else { Err(NotAnEntry) }
    }
}

/// The text of a signed checkpoint (C2SP tlog-checkpoint: origin, size, root hash, extensions).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the log.
    pub origin: String,
    /// `seq` of the last line under it.
    pub seq: u64,
    /// The chain before it.
    pub chain: Hash,
    /// Seconds since 1970-01-01 UTC.
    pub time_s: i64,
    /// The log file, without its directory.
    pub file: String,
    /// How much of the file is under it, bytes.
    pub offset: u64,
    /// Why it was made.
    pub reason: CheckpointReason,
    /// Signs the next checkpoint of the file; none for the last one.
    pub next: Option<VerifierKey>,
}

impl Checkpoint {
    /// The text that is signed.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Checkpoint { origin, seq, chain, time_s, file, offset, reason, next } = self;
        let chain = chain.to_base64();
        let next = next.as_ref().map_or_else(String::new, |key| format!("next {key}\n"));
        format!(
            "{origin}\n{seq}\n{chain}\ntime {time_s}\nfile {file}\noffset {offset}\n\
             reason {reason}\n{next}"
        )
    }

    /// Reads [`Checkpoint::to_text`].
    ///
    /// # Errors
    /// [`NotAnEntry`]
    pub fn parse(text: &str) -> Result<Checkpoint, NotAnEntry> {
        let mut fields = Fields { lines: text.split_terminator('\n') };
        let mut read = || {
            let mut checkpoint = Checkpoint {
                origin: fields.lines.next().filter(|origin| is_origin(origin))?.to_owned(),
                seq: fields.lines.next()?.parse().ok()?,
                chain: Hash::from_base64(fields.lines.next()?)?,
                time_s: fields.take("time")?.parse().ok()?,
                file: file_name(fields.take("file")?)?,
                offset: fields.number("offset")?,
                reason: CheckpointReason::parse(fields.take("reason")?)?,
                next: None,
            };
            if checkpoint.reason.hands_over() {
                let next: VerifierKey = fields.take("next")?.parse().ok()?;
                checkpoint.next = Some(next).filter(|key| key.origin() == checkpoint.origin);
                checkpoint.next.as_ref()?;
            }
            Some(checkpoint)
        };
        let checkpoint = read().ok_or(NotAnEntry)?;
        if checkpoint.to_text() == text { Ok(checkpoint) } else { Err(NotAnEntry) }
    }
}

/// The text of a signed tombstone: a log file that was removed on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Name of the log.
    pub origin: String,
    /// The log file, without its directory.
    pub file: String,
    /// `seq` of its first line.
    pub first_seq: u64,
    /// `seq` of its last line; less than the first if it had none.
    pub last_seq: u64,
    /// The chain at its end.
    pub chain: Hash,
    /// Seconds since 1970-01-01 UTC.
    pub time_s: i64,
    /// Why it was removed.
    pub reason: RemovalReason,
    /// SHA-256 of the tombstone before it, as a note.
    pub previous: Hash,
}

impl Tombstone {
    /// The text that is signed.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Tombstone { origin, file, first_seq, last_seq, chain, time_s, reason, previous } = self;
        format!(
            "{}\nlog {origin}\nfile {file}\nfirst {first_seq}\nlast {last_seq}\n\
             chain {}\ntime {time_s}\nreason {reason}\nprevious {}\n",
            reason.head(),
            chain.to_base64(),
            previous.to_base64()
        )
    }

    /// Reads [`Tombstone::to_text`].
    ///
    /// # Errors
    /// [`NotAnEntry`]
    pub fn parse(text: &str) -> Result<Tombstone, NotAnEntry> {
        let fields = Fields::after(REMOVED_HEAD, text);
        let mut fields =
            fields.or_else(|| Fields::after(REMOVED_HEAD_2, text)).ok_or(NotAnEntry)?;
        let mut read = || {
            Some(Tombstone {
                origin: fields.take("log").filter(|origin| is_origin(origin))?.to_owned(),
                file: file_name(fields.take("file")?)?,
                first_seq: fields.number("first")?,
                last_seq: fields.number("last")?,
                chain: Hash::from_base64(fields.take("chain")?)?,
                time_s: fields.take("time")?.parse().ok()?,
                reason: RemovalReason::parse(fields.take("reason")?)?,
                previous: Hash::from_base64(fields.take("previous")?)?,
            })
        };
        let tombstone = read().ok_or(NotAnEntry)?;
        if tombstone.to_text() == text { Ok(tombstone) } else { Err(NotAnEntry) }
    }
}

/// A run of complete lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it begins in the file, bytes.
    pub start: u64,
    /// Where it ends, bytes.
    pub end: u64,
    /// `seq` of its last line.
    pub last_seq: u64,
    /// How many lines it has.
    pub lines: u64,
    /// SHA-256 of its bytes.
    pub digest: Hash,
    /// It was sealed when a recorder started, not when it was written.
    pub recovered: bool,
}

impl Frame {
    /// Its line.
    #[must_use]
    pub fn to_line(&self) -> String {
        let Frame { start, end, last_seq, lines, digest, recovered } = self;
        let mut line = format!("{FRAME_HEAD}{start} {end} {last_seq} {lines} {digest}");
        if *recovered {
            line.push_str(" recovered");
        }
        line.push('\n');
        line
    }

    /// Reads [`Frame::to_line`].
    ///
    /// # Errors
    /// [`NotAnEntry`]
    pub fn parse(line: &str) -> Result<Frame, NotAnEntry> {
        let read = || {
            let mut words = line.strip_prefix(FRAME_HEAD)?.strip_suffix('\n')?.split(' ');
            let mut number = || words.next()?.parse().ok();
            let (start, end, last_seq, lines) = (number()?, number()?, number()?, number()?);
            let digest = Hash::from_hex(words.next()?)?;
            let recovered = words.next() == Some("recovered");
            (start < end && lines > 0).then_some(Frame {
                start,
                end,
                last_seq,
                lines,
                digest,
                recovered,
            })
        };
        let frame = read().ok_or(NotAnEntry)?;
        if frame.to_line() == line { Ok(frame) } else { Err(NotAnEntry) }
    }
}

/// Whether a name is that of a log file without its ending: `audit-<time>-<number>`.
#[must_use]
pub fn is_stem(text: &str) -> bool {
    text.len() == 29
        && text
            .bytes()
            .zip("audit-00000000T000000Z-000000".bytes())
            .all(|(byte, form)| if form == b'0' { byte.is_ascii_digit() } else { byte == form })
}

pub(crate) fn file_name(text: &str) -> Option<String> {
    let stem = text.strip_suffix(".jsonl")?;
    is_stem(stem).then(|| text.to_owned())
}

/// Lines of the form `name value`, in a fixed order.
pub(crate) struct Fields<'a> {
    lines: std::str::SplitTerminator<'a, char>,
}

impl<'a> Fields<'a> {
    pub(crate) fn after(head: &str, text: &'a str) -> Option<Fields<'a>> {
        let mut lines = text.split_terminator('\n');
        (lines.next()? == head).then_some(Fields { lines })
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<&'a str> {
        self.lines.next()?.strip_prefix(name)?.strip_prefix(' ')
    }

    pub(crate) fn number(&mut self, name: &str) -> Option<u64> {
        self.take(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SecretKey;
    use proptest::prelude::*;

    const FILE: &str = "audit-20261121T015944Z-000042.jsonl";

    fn epoch() -> Epoch {
        let root = SecretKey::from_bytes(&[1; 32]).root();
        let key = SecretKey::from_bytes(&[2; 32]).public(root.origin());
        let signer = SecretKey::from_bytes(&[3; 32]).public(root.origin());
        Epoch {
            root,
            number: 3,
            key,
            signer,
            reason: EpochReason::Rotate,
            time_s: 1_795_230_185,
            file: FILE.to_owned(),
            seq: 17,
            previous: Some(FILE.replace("42", "41")),
            chain: Hash::of(b"x"),
        }
    }

    #[test]
    fn entries_read_back() {
        let epoch = epoch();
        assert_eq!(Epoch::parse(&epoch.to_text()), Ok(epoch.clone()));
        let checkpoint = Checkpoint {
            origin: epoch.root.origin().to_owned(),
            seq: 99,
            chain: epoch.chain,
            time_s: -1,
            file: FILE.to_owned(),
            offset: 7,
            reason: CheckpointReason::Stop,
            next: Some(epoch.signer.clone()),
        };
        assert_eq!(Checkpoint::parse(&checkpoint.to_text()), Ok(checkpoint.clone()));
        let last = Checkpoint { reason: CheckpointReason::Rotate, ..checkpoint.clone() };
        assert_eq!(Checkpoint::parse(&last.to_text()), Err(NotAnEntry));
        let last = Checkpoint { next: None, ..last };
        assert_eq!(Checkpoint::parse(&last.to_text()), Ok(last.clone()));
        let last = Checkpoint { reason: CheckpointReason::Stop, ..last };
        assert_eq!(Checkpoint::parse(&last.to_text()), Err(NotAnEntry));
        let tombstone = Tombstone {
            origin: checkpoint.origin,
            file: FILE.to_owned(),
            first_seq: 1,
            last_seq: 0,
            chain: Hash::ZERO,
            time_s: 0,
            reason: RemovalReason::Age,
            previous: Hash::ZERO,
        };
        for (reason, _) in RemovalReason::ALL {
            let tombstone = Tombstone { reason, ..tombstone.clone() };
            assert_eq!(Tombstone::parse(&tombstone.to_text()), Ok(tombstone));
        }
        for recovered in [false, true] {
            let digest = Hash::ZERO;
            let frame = Frame { start: 1, end: 2, last_seq: 3, lines: 4, digest, recovered };
            assert_eq!(Frame::parse(&frame.to_line()), Ok(frame));
        }
    }

    #[test]
    fn there_is_one_spelling() {
        let text = epoch().to_text();
        for (from, to) in [
            ("epoch 3", "epoch 03"),
            ("epoch 3", "epoch +3"),
            ("seq 17", "seq  17"),
            ("reason rotate", "reason Rotate"),
            ("v1", "v2"),
            ("chain ", "chain"),
        ] {
            assert!(text.contains(from));
            assert_eq!(Epoch::parse(&text.replace(from, to)), Err(NotAnEntry), "{to}");
        }
        assert_eq!(Epoch::parse(&(text.clone() + "more 1\n")), Err(NotAnEntry));
        assert_eq!(Epoch::parse(text.trim_end()), Err(NotAnEntry));
        let digest = Hash::ZERO;
        let frame = Frame { start: 1, end: 2, last_seq: 3, lines: 4, digest, recovered: true };
        let line = frame.to_line();
        for other in [
            line.replace(" 2", " 02"),
            line.replace(" 2", " 1"),
            line.replace(" recovered", " recovered "),
            line.replace(" recovered", " again"),
            line.replace("frame", "Frame"),
        ] {
            assert_eq!(Frame::parse(&other), Err(NotAnEntry), "{other}");
        }
    }

    /// Readers of version 1 know three reasons, and must be able to read all tombstones with them.
    #[test]
    fn a_tombstone_has_the_version_of_its_reason() {
        let tombstone = |reason| Tombstone {
            origin: epoch().root.origin().to_owned(),
            file: FILE.to_owned(),
            first_seq: 1,
            last_seq: 2,
            chain: Hash::ZERO,
            time_s: 0,
            reason,
            previous: Hash::ZERO,
        };
        for (reason, word, version, other) in [
            (RemovalReason::Age, "age", "-v1\n", "-v2\n"),
            (RemovalReason::Size, "size", "-v1\n", "-v2\n"),
            (RemovalReason::Request, "request", "-v1\n", "-v2\n"),
            (RemovalReason::Count, "count", "-v2\n", "-v1\n"),
        ] {
            let text = tombstone(reason).to_text();
            assert!(text.starts_with(&format!("tachograph-removed{version}")), "{text}");
            assert!(text.contains(&format!("\nreason {word}\n")), "{text}");
            assert_eq!(Tombstone::parse(&text.replace(version, other)), Err(NotAnEntry), "{text}");
        }
        let text = tombstone(RemovalReason::Count).to_text();
        assert_eq!(Tombstone::parse(&text.replace("-v2\n", "-v3\n")), Err(NotAnEntry));
        assert_eq!(Tombstone::parse(&text.replace(" count\n", " whim\n")), Err(NotAnEntry));
    }

    proptest! {
        #[test]
        fn anything_is_read_without_a_panic(text in "(frame |audit|[ 0-9a-z\\n\\PC]){0,40}") {
            let _ = (Frame::parse(&text), Epoch::parse(&text));
            let _ = (Checkpoint::parse(&text), Tombstone::parse(&text));
        }
    }
}
