//! Which files of a process may have the functions.

use std::collections::BTreeSet;

/// A file that a process has mapped as code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// A path that leads to this file, also if it was replaced since, or is in another namespace.
    pub path: String,
    /// Its path as the process sees it.
    pub name: String,
}

/// The TLS libraries among the mappings of a process (the text of `/proc/PID/maps`).
pub(crate) fn tls_libraries(pid: u32, maps: &str) -> Vec<Library> {
    let mut seen = BTreeSet::new();
    let mut libraries = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        // Offset and device.
        let inode = words.nth(2).unwrap_or_default();
        let Some((_, name)) = line.find('/').map(|at| line.split_at(at)) else { continue };
        let file = name.rsplit('/').next().unwrap_or_default();
        let is_code = rights.as_bytes().get(2) == Some(&b'x');
        if is_code && file.starts_with("libssl.so") && seen.insert(inode) {
            let path = format!("/proc/{pid}/map_files/{range}");
            libraries.push(Library { path, name: name.to_owned() });
        }
    }
    libraries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_libssl_is_found_once() {
        let maps = "\
55d0c000-55d0e000 r-xp 00002000 fe:00 42                 /usr/sbin/mariadbd
7f000000-7f010000 r--p 00000000 fe:00 43                 /usr/lib/libssl.so.3
7f010000-7f060000 r-xp 00010000 fe:00 43                 /usr/lib/libssl.so.3
7f060000-7f070000 r-xp 00060000 fe:00 43                 /usr/lib/libssl.so.3
7f080000-7f090000 r-xp 00000000 fe:00 44                 /opt/my sql/libssl.so.1.1 (deleted)
7f0a0000-7f0b0000 r-xp 00000000 00:00 0
7ffe0000-7fff0000 rw-p 00000000 00:00 0                  [stack]
";
        let found = tls_libraries(7, maps);
        let expected = [
            ("/proc/7/map_files/7f010000-7f060000", "/usr/lib/libssl.so.3"),
            ("/proc/7/map_files/7f080000-7f090000", "/opt/my sql/libssl.so.1.1 (deleted)"),
        ];
        let expected =
            expected.map(|(path, name)| Library { path: path.into(), name: name.into() });
        assert_eq!(found, expected);
    }
}
