//! A file that a command makes: complete under its name, or not there.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use tempfile::NamedTempFile;

/// A file beside the wanted one, which gets its name at the end. It disappears if it is dropped
/// before.
pub struct NewFile {
    output: PathBuf,
    file: NamedTempFile,
}

impl NewFile {
    /// An empty file that will be `output`.
    ///
    /// # Errors
    /// `output` exists, or a file cannot be created beside it.
    pub fn create(output: &Path) -> anyhow::Result<Self> {
        ensure!(
            std::fs::symlink_metadata(output).is_err(),
            "{} exists and is not overwritten; name another file",
            output.display()
        );
        let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let file = NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))
            .with_context(|| format!("cannot create a file beside {}", output.display()))?;
        Ok(Self { output: output.to_owned(), file })
    }

    /// The file.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Its name until the end.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The error of a write to it.
    pub fn not_written(&self) -> String {
        format!("cannot write {}", self.output.display())
    }

    /// Gives the file its name. Returns its length in bytes.
    ///
    /// # Errors
    /// It is not on the disk, or another file has the name by now.
    pub fn finish(self) -> anyhow::Result<u64> {
        let context = self.not_written();
        self.file().sync_all().context(context.clone())?;
        let bytes = self.file().metadata().context(context.clone())?.len();
        self.file.persist_noclobber(&self.output).context(context)?;
        Ok(bytes)
    }
}
