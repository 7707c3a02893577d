//! The output of a run in progress: lines for a file, and progress for the user.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::lines::Line;

/// Receives all lines of a run.
#[derive(Debug)]
pub struct Output {
    file: BufWriter<File>,
    partial: PathBuf,
    lines: Vec<Line>,
    quiet: bool,
    rewrites: bool,
    shown: usize,
}

impl Output {
    /// Writes the lines to `partial` as they arrive. [`Output::finish`] renames that file, so that
    /// a failed run does not touch the results of an earlier one. `quiet` omits progress.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new(partial: &Path, quiet: bool) -> Result<Self> {
        let file = File::create(partial)
            .with_context(|| format!("cannot create {}", partial.display()))?;
        Ok(Self {
            file: BufWriter::new(file),
            partial: partial.to_owned(),
            lines: Vec::new(),
            quiet,
            rewrites: io::stderr().is_terminal(),
            shown: 0,
        })
    }

    /// The run is complete: renames its file to `path`, replacing an older one.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn finish(&self, path: &Path) -> Result<()> {
        std::fs::rename(&self.partial, path).with_context(|| {
            format!("cannot rename {} to {}", self.partial.display(), path.display())
        })
    }

    /// The run failed. A file without a line is removed.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn abandon(&self) -> Result<()> {
        if !self.lines.is_empty() {
            return Ok(());
        }
        std::fs::remove_file(&self.partial)
            .with_context(|| format!("cannot remove {}", self.partial.display()))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn line(&mut self, line: Line) -> Result<()> {
        serde_json::to_writer(&mut self.file, &line)?;
        self.file.write_all(b"\n")?;
        // A reader may follow the file, and an interrupted run has useful lines, too.
        self.file.flush().context("cannot write the result lines")?;
        self.lines.push(line);
        Ok(())
    }

    /// All lines so far.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Shows the progress of the run. On a terminal the next message replaces it.
    pub fn progress(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        // A missing reader is not a reason to stop.
        let _ = if self.rewrites {
            let padding = " ".repeat(self.shown.saturating_sub(text.chars().count()));
            self.shown = text.chars().count();
            write!(io::stderr(), "\r{text}{padding}").and_then(|()| io::stderr().flush())
        } else {
            writeln!(io::stderr(), "{text}")
        };
    }

    /// Prints a message that stays.
    pub fn say(&mut self, text: &str) {
        self.end_progress();
        if !self.quiet {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// Ends the line that is being overwritten.
    pub fn end_progress(&mut self) {
        if self.rewrites && self.shown > 0 {
            let _ = writeln!(io::stderr());
            self.shown = 0;
        }
    }
}
