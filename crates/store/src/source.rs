//! New lines of a file of the replica.

use std::io;
use std::path::Path;

use tacho_replica::ReplicaFile;

/// How much a line may grow the buffer at once, in bytes.
const STEP_BYTES: u64 = 4 << 20;
/// Longer than any line of a recorder. It protects the memory from a shipper that sends no newline.
const LINE_BYTES_MAX: u64 = 128 << 20;

/// Reads whole lines from `from` on, of the bytes before `durable`, about `budget` bytes; more if
/// a single line is longer. Empty: there is no whole line yet. Of a damaged file, it reads the
/// lines before the damage first.
///
/// # Errors
/// If the file cannot be read, ends before `durable`, or a line is longer than 128 MiB. If it is
/// damaged, and there is no whole line before the damage.
pub fn read_lines(file: &ReplicaFile, from: u64, durable: u64, budget: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut end = from;
    while end < durable {
        let wanted = if bytes.is_empty() { budget.max(1) } else { STEP_BYTES };
        let next = durable.min(end.saturating_add(wanted));
        let old = bytes.len();
        bytes.resize(old + (next - end) as usize, 0);
        let length = read_what_is_there(file, &mut bytes[old..], end)?;
        bytes.truncate(old + length);
        end += length as u64;
        // Not what was searched before: a line may be very long.
        if let Some(last) = bytes[old..].iter().rposition(|&byte| byte == b'\n') {
            bytes.truncate(old + last + 1);
            return Ok(bytes);
        }
        if end < next {
            // Says what is wrong there.
            file.read_exact_at(&mut [0], end)?;
        }
        if bytes.len() as u64 > LINE_BYTES_MAX {
            let text = format!("the line at {from} is longer than {LINE_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    Ok(Vec::new())
}

/// Files of earlier generations: what is the same there is not indexed again.
pub struct Predecessors(Vec<ReplicaFile>);

impl Predecessors {
    /// Those of the file at `path`, which is `<origin>/<generation>/<file>`. A damaged one has
    /// nothing that is the same.
    ///
    /// # Errors
    /// If one exists and cannot be opened.
    pub fn of(path: &Path, generation: u32) -> io::Result<Self> {
        let (Some(file), Some(origin)) = (path.file_name(), path.parent().and_then(Path::parent))
        else {
            return Ok(Self(Vec::new()));
        };
        let mut files = Vec::new();
        for earlier in 1..generation {
            match ReplicaFile::open(&origin.join(earlier.to_string()).join(file)) {
                Ok(file) => files.push(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound || is_damaged(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self(files))
    }

    /// Which of the lines in `bytes`, which begin at `offset`, one of the files has at the same
    /// place. A function of the range of the line in `bytes`.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn same(&self, bytes: &[u8], offset: u64) -> io::Result<Same> {
        let mut copies = Vec::with_capacity(self.0.len());
        for file in &self.0 {
            // With the byte before: a line begins behind a newline.
            let begin = offset.saturating_sub(1);
            let mut copy = vec![0; bytes.len() + (offset - begin) as usize];
            let length = read_what_is_there(file, &mut copy, begin)?;
            copy.truncate(length);
            copies.push(copy);
        }
        Ok(Same { copies, before: usize::from(offset > 0) })
    }
}

/// The same range of the files of earlier generations.
pub struct Same {
    copies: Vec<Vec<u8>>,
    before: usize,
}

impl Same {
    /// Whether an earlier generation has the line `bytes[range]`, which ends with a newline.
    pub fn has(&self, bytes: &[u8], range: std::ops::Range<usize>) -> bool {
        self.copies.iter().any(|copy| {
            let begin = range.start + self.before;
            let is_begin = begin == 0 || copy.get(begin - 1) == Some(&b'\n');
            is_begin && copy.get(begin..range.end + self.before) == Some(&bytes[range.clone()])
        })
    }
}

fn read_what_is_there(file: &ReplicaFile, buffer: &mut [u8], from: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], from + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_damaged(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// A compressed file is not as the hub has written it.
fn is_damaged(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

#[cfg(test)]
mod tests {
    use tacho_replica::{compressed_paths, seekable};

    use super::*;

    #[test]
    fn a_line_without_an_end_is_refused() {
        let plain = tempfile::tempfile().unwrap();
        let file = ReplicaFile::Plain(plain.try_clone().unwrap());
        let read = |length| {
            plain.set_len(length).unwrap();
            read_lines(&file, 0, length, 1 << 20)
        };
        assert!(read(LINE_BYTES_MAX).unwrap().is_empty());
        let error = read(LINE_BYTES_MAX + 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn only_whole_lines_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, b"one\ntwo\nlonger line\nend").unwrap();
        let file = ReplicaFile::open(&path).unwrap();
        let read = |from, durable, budget| {
            String::from_utf8(read_lines(&file, from, durable, budget).unwrap()).unwrap()
        };
        assert_eq!(read(0, 23, 100), "one\ntwo\nlonger line\n");
        assert_eq!(read(0, 7, 100), "one\n");
        assert_eq!(read(0, 23, 5), "one\n");
        assert_eq!(read(8, 23, 2), "longer line\n");
        assert_eq!(read(20, 23, 100), "");
        // It is shorter than what was durable: the lines before its end are there.
        assert_eq!(read(0, 24, 100), "one\ntwo\nlonger line\n");
        assert!(read_lines(&file, 20, 24, 100).is_err());
    }

    #[test]
    fn the_lines_before_a_damage_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let line = [&[b'x'; 99][..], b"\n"].concat();
        let text = line.repeat(3 * seekable::CONTENT_BYTES / line.len());
        let mut writer = seekable::Writer::new(Vec::new(), 1).unwrap();
        text.chunks(seekable::CONTENT_BYTES).for_each(|part| writer.part(part).unwrap());
        let mut packed = writer.finish().unwrap();
        let middle = packed.len() / 2;
        packed[middle] ^= 1;
        let [_, former] = compressed_paths(&path);
        std::fs::write(former, packed).unwrap();
        let file = ReplicaFile::open(&path).unwrap();
        let durable = text.len() as u64;
        let lines = read_lines(&file, 0, durable, durable).unwrap();
        let whole = seekable::CONTENT_BYTES / line.len() * line.len();
        assert_eq!(lines.len(), whole);
        let error = read_lines(&file, whole as u64, durable, durable).unwrap_err();
        assert!(error.to_string().contains("frame 2 of the file is damaged"), "{error}");
    }

    #[test]
    fn lines_of_earlier_generations_are_found_at_their_place() {
        let dir = tempfile::tempdir().unwrap();
        for (generation, text) in [("1", "aaa\nbbb\nccc\ndd"), ("2", ""), ("3", "")] {
            std::fs::create_dir(dir.path().join(generation)).unwrap();
            std::fs::write(dir.path().join(generation).join("log"), text).unwrap();
        }
        let files = Predecessors::of(&dir.path().join("3/log"), 3).unwrap();
        let text = b"bbb\nxcc\ndd\n";
        let same = files.same(text, 4).unwrap();
        assert!(same.has(text, 0..4));
        assert!(!same.has(text, 4..8));
        // Its newline has not arrived there.
        assert!(!same.has(text, 8..11));
        // The same bytes, but not a line of that file.
        let same = files.same(b"bb\n", 5).unwrap();
        assert!(!same.has(b"bb\n", 0..3));
    }

    /// A log forks when the copy of a file is damaged: the next generation has all of it.
    #[test]
    fn a_damaged_file_of_an_earlier_generation_has_no_lines() {
        let dir = tempfile::tempdir().unwrap();
        for generation in ["1", "2"] {
            std::fs::create_dir(dir.path().join(generation)).unwrap();
        }
        let line = [&[b'x'; 99][..], b"\n"].concat();
        let text = line.repeat(2 * seekable::CONTENT_BYTES / line.len());
        let mut writer = seekable::Writer::new(Vec::new(), 1).unwrap();
        text.chunks(seekable::CONTENT_BYTES).for_each(|part| writer.part(part).unwrap());
        let mut packed = writer.finish().unwrap();
        let middle = packed.len() / 2;
        let [_, first] = compressed_paths(&dir.path().join("1/log"));
        let path = dir.path().join("2/log");
        let has = |offset: u64| {
            let same = Predecessors::of(&path, 2)?.same(&line, offset)?;
            Ok::<_, io::Error>(same.has(&line, 0..line.len()))
        };
        std::fs::write(&first, &packed).unwrap();
        let last = (text.len() - line.len()) as u64;
        assert!(has(0).unwrap() && has(last).unwrap());
        // The second frame.
        packed[middle] ^= 1;
        std::fs::write(&first, &packed).unwrap();
        assert_eq!((has(0).unwrap(), has(last).unwrap()), (true, false));
        // The table.
        packed.pop();
        std::fs::write(&first, &packed).unwrap();
        assert!(!has(0).unwrap());
    }
}
