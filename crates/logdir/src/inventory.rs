//! Overview of the log files, for SHOW STATUS.
//!
//! An administrator without a shell on the server can see how many files there are, how much space
//! they use, and how far back they reach. The writer updates it at intervals: each update lists the
//! directory, and looks at each file that has changed since the last one.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use tacho_record::Line;

use super::ending::{Content, Ending, Parts};
use super::form::Form;
use super::fs::{Fs, OpenMode};
use super::name::FileName;
use super::pack::{self, Packing};
use super::stream::Stream;
use super::write::current::Current;
use super::write::directory::LogDir;

/// Length within which `ts` of a line surely ends: `{"v":1,"seq":…,"ts":"…"`.
const HEAD_BYTES: u64 = 128;

/// Overview of the log files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Log files, each counted once, in any number of forms.
    pub count: u64,
    /// Bytes of all of them on the disk, including sidecars and renditions.
    pub bytes: u64,
    /// The oldest.
    pub oldest: Option<Oldest>,
    /// Closed log files that have a part to be packed.
    pub to_pack: u64,
}

/// The oldest log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oldest {
    name: FileName,
    form: Form,
    /// Time of its first line, if it can be read.
    first_us: Option<i64>,
}

impl Oldest {
    /// Its name on the disk.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}.{}", self.name, self.form.ending())
    }

    /// Time of its first line, µs since 1970-01-01 UTC; for a file that is encrypted or has no
    /// line, the time in its name.
    #[must_use]
    pub fn begun_us(&self) -> i64 {
        self.first_us.unwrap_or(self.name.stamp_s().saturating_mul(1_000_000))
    }
}

/// Makes the overview of `all` files. `before` is the previous result. The bytes are not counted.
pub(crate) fn look<F: Fs>(
    dir: &LogDir<F>,
    current: &Current<F::File>,
    packing: &Packing,
    all: &BTreeMap<FileName, Parts>,
    before: &Inventory,
) -> Inventory {
    let is_log = |(name, parts): &(&FileName, &Parts)| {
        // Files with newer names than the current file are not the recorder's.
        **name <= current.name && parts.has_lines()
    };
    let mut files = all.iter().filter(is_log);
    let count = files.clone().count() as u64;
    let oldest = files.next().and_then(|(name, parts)| {
        let (name, form) = (*name, parts.best_form(Content::Lines)?);
        let known = before.oldest.as_ref().filter(|known| known.name == name);
        let first_us = known.and_then(|known| known.first_us);
        let first_us = first_us.or_else(|| first_us_of(dir, name, form));
        Some(Oldest { name, form, first_us })
    });
    let mut names: Vec<FileName> = pack::tasks(dir, current, packing, all)
        .filter(|task| is_filled(dir, &task.path(dir.path())))
        .map(|task| task.name)
        .collect();
    names.dedup();
    Inventory { count, bytes: 0, oldest, to_pack: names.len() as u64 }
}

fn is_filled<F: Fs>(dir: &LogDir<F>, path: &Path) -> bool {
    dir.fs().stat(path).is_ok_and(|stat| stat.is_file && stat.bytes > 0)
}

/// Time of the first line of a file, if it can be read: only a figure depends on it.
fn first_us_of<F: Fs>(dir: &LogDir<F>, name: FileName, form: Form) -> Option<i64> {
    if form.is_encrypted() {
        return None;
    }
    let path = dir.path().join(format!("{name}.{}", Ending::File(Content::Lines, form)));
    let file = dir.fs().open(&path, OpenMode::Read).ok()?;
    let mut head = Vec::new();
    let source = Stream::new(&file);
    let read = |from: &mut dyn Read, to: &mut Vec<u8>| from.take(HEAD_BYTES).read_to_end(to);
    let count: io::Result<usize> = match form {
        Form::Compressed => {
            zstd::Decoder::new(source).and_then(|mut source| read(&mut source, &mut head))
        }
        _ => read(&mut { source }, &mut head),
    };
    count.ok()?;
    time_of(&head)
}

/// `ts` of the line that begins like this, µs since 1970-01-01 UTC.
fn time_of(head: &[u8]) -> Option<i64> {
    const KEY: &[u8] = b",\"ts\":\"";
    let at = head.windows(KEY.len()).position(|part| part == KEY)? + KEY.len();
    let end = at + head[at..].iter().position(|byte| *byte == b'"')?;
    // Parsed as a whole line, for which the reader requires an `event`.
    let line = [&head[..=end], b",\"event\":\"start\"}"].concat();
    Some(Line::parse(&line).ok()?.ts.as_microsecond())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::super::faulty::FaultyFs;
    use super::super::recipients::Recipients;
    use super::super::write::{LogFiles, Options};
    use super::*;

    const DIR: &str = "/data/tacho";
    const BEGIN_S: i64 = 951_827_696;

    fn line(seq: u64, second: u64) -> String {
        let ts = format!("2000-02-29T13:34:{second:02}.000007+01:00");
        format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts}\",\"event\":\"stop\"}}\n")
    }

    fn packing(compress: bool, encrypt: bool) -> Packing {
        let key = age::x25519::Identity::generate().to_public().to_string();
        let recipients = || Arc::new(Recipients::parse(&key).expect("a key"));
        Packing { compress, recipients: encrypt.then(recipients) }
    }

    fn path(number: u64, ending: &str) -> PathBuf {
        Path::new(DIR).join(format!("audit-20000229T123456Z-{number:06}.{ending}"))
    }

    #[test]
    fn the_figures_follow_the_files() {
        let fs = FaultyFs::new();
        fs.set_now_s(BEGIN_S);
        fs.create_dir(Path::new("/data")).expect("an empty file system");
        let options = Options { rotate_bytes: 0 };
        let (mut files, _) = LogFiles::open(fs.clone(), Path::new(DIR), options).expect("opens");
        let nothing = Packing::default();
        let empty = files.inventory(&nothing, &Inventory::default()).expect("looks");
        assert_eq!((empty.count, empty.bytes, empty.to_pack), (1, 0, 0));
        // Without a line there is only the time in its name.
        assert_eq!(empty.oldest.as_ref().expect("one").begun_us(), BEGIN_S * 1_000_000);
        for seq in 1..=3 {
            files.write(line(seq, 50 + seq).as_bytes(), &mut 0).expect("writes");
            if seq < 3 {
                files.rotate_now().expect("rotates");
            }
        }
        let line_bytes = line(1, 51).len() as u64;
        fs.append(&path(1, "csv"), b"the same, in other words");
        fs.append(&path(1, "chain"), b"its seal");
        // Foreign files: with a newer name than the current file, without a log file, with another
        // name.
        fs.append(&path(9, "jsonl"), b"");
        fs.append(&path(4, "csv"), b"without a log file");
        let inventory = files.inventory(&nothing, &empty).expect("looks");
        assert_eq!((inventory.count, inventory.to_pack), (3, 0));
        assert_eq!(inventory.bytes, 3 * line_bytes + 24 + 8);
        let oldest = inventory.oldest.as_ref().expect("one");
        assert_eq!(oldest.file(), "audit-20000229T123456Z-000001.jsonl");
        assert_eq!(oldest.begun_us(), (BEGIN_S - 5) * 1_000_000 + 7);

        // A log file and its rendition count as one waiting file.
        let compress = packing(true, false);
        assert_eq!(files.inventory(&compress, &inventory).expect("looks").to_pack, 2);
        let pack = |files: &mut LogFiles<FaultyFs>, packing: &Packing| {
            let packer = files.next_to_pack(packing, |_, _| false).expect("lists").expect("one");
            packer.run(&AtomicBool::new(false)).expect("packs");
            files.inventory(packing, &Inventory::default()).expect("looks")
        };
        assert_eq!(pack(&mut files, &compress).to_pack, 2, "its rendition waits");
        let inventory = pack(&mut files, &compress);
        assert_eq!(inventory.to_pack, 1);
        let oldest = inventory.oldest.as_ref().expect("one");
        assert_eq!(oldest.file(), "audit-20000229T123456Z-000001.jsonl.zst");
        assert_eq!(oldest.begun_us(), (BEGIN_S - 5) * 1_000_000 + 7, "it is decompressed");
        let packed = fs.read(&path(1, "jsonl.zst")).len() + fs.read(&path(1, "csv.zst")).len();
        assert_eq!(inventory.bytes, 2 * line_bytes + 8 + packed as u64);

        // An overview from before the encryption still has the time of the line; a new one has the
        // name's.
        let encrypt = packing(false, true);
        let new = pack(&mut files, &encrypt);
        assert_eq!(new.oldest.as_ref().expect("one").begun_us(), BEGIN_S * 1_000_000);
        let old = files.inventory(&encrypt, &inventory).expect("looks");
        assert_eq!(old.oldest.as_ref().expect("one").begun_us(), oldest.begun_us());
        assert!(old.oldest.expect("one").file().ends_with(".jsonl.zst.age"));
    }

    #[test]
    fn the_time_of_a_line_is_in_its_head() {
        let text = line(18_446_744_073_709_551_615, 51);
        let head = &text.as_bytes()[..text.len().min(HEAD_BYTES as usize)];
        assert_eq!(time_of(head), Some((BEGIN_S - 5) * 1_000_000 + 7));
        for head in [
            "",
            "{\"v\":1,\"seq\":1,\"ts\":\"2000-02-29",
            "{\"v\":1,\"seq\":1,\"ts\":\"x\"",
            "theirs\n",
        ] {
            assert_eq!(time_of(head.as_bytes()), None, "{head}");
        }
    }
}
