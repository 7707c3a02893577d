//! How long the files of a log are: metadata only, whatever their number of bytes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::ending::Ending;
use crate::name::FileName;

/// Bytes of each log file with its sidecar and its renditions, in all their forms, oldest first: as
/// `retention_bytes` counts them.
///
/// # Errors
/// The directory cannot be read.
pub fn list(directory: &Path) -> io::Result<BTreeMap<FileName, u64>> {
    let mut sizes = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((name, ending)) = name.to_str().and_then(FileName::parse) else { continue };
        if Ending::parse(ending).is_none() {
            continue;
        }
        match entry.metadata() {
            Ok(metadata) if metadata.is_file() => {
                *sizes.entry(name).or_insert(0) += metadata.len();
            }
            Ok(_) => {}
            // Packed or removed since its name was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_belongs_to_a_file_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: usize| {
            std::fs::write(directory.path().join(name), vec![b'x'; bytes]).unwrap();
        };
        write("audit-20261121T100000Z-000001.jsonl.zst", 1);
        write("audit-20261121T100000Z-000001.chain", 2);
        write("audit-20261121T100000Z-000001.csv", 4);
        write("audit-20261121T100000Z-000002.jsonl", 8);
        write("audit-20261121T100000Z-000002.backup", 1000);
        write("removed.chain", 1000);
        std::fs::create_dir(directory.path().join("audit-20261121T100000Z-000003.jsonl")).unwrap();
        let sizes = list(directory.path()).unwrap();
        assert_eq!(sizes.into_values().collect::<Vec<_>>(), [7, 8]);
        assert!(list(&directory.path().join("missing")).is_err());
    }
}
