//! Cached sizes of closed files.

use std::collections::BTreeMap;
use std::io;

use crate::ending::{Content, Ending, Parts};
use crate::error::{At, FileError};
use crate::fs::Fs;
use crate::name::FileName;
use crate::write::directory::DirView;

/// Lengths of closed files: the parts of each at the last look, and their bytes. They change only
/// when the file is packed.
#[derive(Default)]
pub(crate) struct Sizes(BTreeMap<FileName, (Parts, u64)>);

impl Sizes {
    /// Renditions of closed files from this one on may have grown.
    pub(crate) fn forget(&mut self, from: FileName) {
        drop(self.0.split_off(&from));
    }

    /// Length of all files of the log together, bytes. `is_settled`: no part of a closed file is
    /// still being written.
    pub(crate) fn total<F: Fs>(
        &mut self,
        dir: DirView<'_, F>,
        parts: &BTreeMap<FileName, Parts>,
        current: FileName,
        is_settled: impl Fn(FileName) -> bool,
    ) -> Result<u64, FileError> {
        let mut before = std::mem::take(&mut self.0);
        let mut sum = 0_u64;
        for (name, parts) in parts.iter().filter(|(_, parts)| counts(**parts)) {
            let known = before.remove(name).filter(|(known, _)| known == parts);
            let bytes = match known {
                Some((_, bytes)) => bytes,
                None => bytes_of(dir, *name, *parts)?,
            };
            if *name < current && !parts.has_new() && is_settled(*name) {
                self.0.insert(*name, (*parts, bytes));
            }
            sum = sum.saturating_add(bytes);
        }
        Ok(sum)
    }
}

/// Whether a file counts: a rendition without a log file is not removed by retention.
fn counts(parts: Parts) -> bool {
    !parts.iter().all(is_secondary)
}

/// Length of all parts of a file together, bytes; 0 if it does not count.
pub(crate) fn bytes_of<F: Fs>(
    dir: DirView<'_, F>,
    name: FileName,
    parts: Parts,
) -> Result<u64, FileError> {
    if !counts(parts) {
        return Ok(0);
    }
    parts
        .iter()
        .try_fold(0_u64, |sum, ending| Ok(sum.saturating_add(part_bytes(dir, name, ending)?)))
}

/// Length of a part; 0 if it no longer exists.
fn part_bytes<F: Fs>(
    dir: DirView<'_, F>,
    name: FileName,
    ending: Ending,
) -> Result<u64, FileError> {
    let path = dir.path.join(format!("{name}.{ending}"));
    match dir.fs.stat(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        stat => Ok(stat.at("look at", &path)?.bytes),
    }
}

/// Whether a part is a rendition.
pub(crate) fn is_secondary(ending: Ending) -> bool {
    matches!(ending, Ending::File(content, _) | Ending::New(content, _) if content != Content::Lines)
}
