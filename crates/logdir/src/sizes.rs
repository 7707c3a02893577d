//! What is known of the sizes of closed files.

use std::collections::BTreeMap;
use std::io;

use crate::ending::{Content, Ending, Parts};
use crate::error::{At, FileError};
use crate::fs::Fs;
use crate::name::FileName;
use crate::write::directory::LogDir;

/// How long closed files are: what there was of each when it was looked at, and its bytes. They do not
/// change any more, except when they are packed.
#[derive(Default)]
pub(crate) struct Sizes(BTreeMap<FileName, (Parts, u64)>);

impl Sizes {
    /// What is beside closed files from this one on may have become longer.
    pub(crate) fn forget(&mut self, from: FileName) {
        drop(self.0.split_off(&from));
    }

    /// How long all files of the log are together, bytes. `is_settled`: nothing of a closed file is
    /// written any more.
    pub(crate) fn total<F: Fs>(
        &mut self,
        dir: &LogDir<F>,
        parts: &BTreeMap<FileName, Parts>,
        current: FileName,
        is_settled: impl Fn(FileName) -> bool,
    ) -> Result<u64, FileError> {
        let mut before = std::mem::take(&mut self.0);
        let mut sum = 0_u64;
        // A rendition without a log file does not go with one either.
        for (name, parts) in parts.iter().filter(|(_, parts)| !parts.iter().all(is_secondary)) {
            let known = before.remove(name).filter(|(known, _)| known == parts);
            let bytes = match known {
                Some((_, bytes)) => bytes,
                None => parts.iter().try_fold(0_u64, |sum, ending| {
                    Ok(sum.saturating_add(part_bytes(dir, *name, ending)?))
                })?,
            };
            if *name < current && !parts.has_new() && is_settled(*name) {
                self.0.insert(*name, (*parts, bytes));
            }
            sum = sum.saturating_add(bytes);
        }
        Ok(sum)
    }
}

/// Length of a part; 0 if it is not there any more.
fn part_bytes<F: Fs>(dir: &LogDir<F>, name: FileName, ending: Ending) -> Result<u64, FileError> {
    let path = dir.path().join(format!("{name}.{ending}"));
    match dir.fs().stat(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        stat => Ok(stat.at("look at", &path)?.bytes),
    }
}

/// Whether a part says the lines in another format.
pub(crate) fn is_secondary(ending: Ending) -> bool {
    matches!(ending, Ending::File(content, _) | Ending::New(content, _) if content != Content::Lines)
}
