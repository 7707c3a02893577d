//! The executable mappings of a process.

use std::fs;
use std::io;

use crate::task::Tid;

/// One executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// End address (exclusive).
    pub end: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// Inode of the file; 0: no file.
    pub inode: u64,
    /// Path as seen by the process, or a name in brackets, or empty.
    pub path: String,
}

/// Reads them.
///
/// # Errors
/// The process has ended, or permission is denied.
pub fn executable(pid: Tid) -> io::Result<Vec<Mapping>> {
    let text = fs::read(format!("/proc/{pid}/maps"))?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(parse).collect())
}

/// `7f28c000-7f28e000 r-xp 00028000 fe:00 1317 /usr/lib/libc.so.6`
fn parse(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
        rest = after;
        word
    };
    let (start, end) = word().split_once('-')?;
    let rights = word();
    let offset = word();
    let _device = word();
    let inode = word();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    if rights.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        inode: inode.parse().ok()?,
        path: rest.trim_start().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_can_run() {
        let line = "55d0c000-55d0e000 r-xp 00002000 fe:00 42                 /usr/lib/a b.so";
        let mapping = Mapping {
            start: 0x55d0_c000,
            end: 0x55d0_e000,
            offset: 0x2000,
            inode: 42,
            path: "/usr/lib/a b.so".to_owned(),
        };
        assert_eq!(parse(line), Some(mapping));
        assert_eq!(parse("1000-2000 rw-p 00000000 00:00 0 "), None);
        let nameless = parse("1000-2000 rwxp 00000000 00:00 0 ").expect("code made at run time");
        assert_eq!((nameless.inode, nameless.path.as_str()), (0, ""));
    }

    #[test]
    fn finds_itself() {
        let here = finds_itself as fn() as usize as u64;
        let maps = executable(std::process::id() as Tid).expect("our maps");
        assert!(maps.iter().any(|map| map.start <= here && here < map.end && map.inode != 0));
    }
}
