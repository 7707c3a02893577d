//! What a run tells while it goes on: lines for a file, and where it is for the person who waits.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::lines::Line;

/// Takes all lines of a run.
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
    /// Writes the lines to `partial` as they come, too. [`Output::finish`] gives that file its name, so
    /// that a run that fails leaves the results of an earlier one alone. `quiet` leaves out progress.
    ///
    /// # Errors
    /// The file cannot be made.
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

    /// The run is complete: its file is called `path` from now on, and replaces what was there.
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

    /// Takes a line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn line(&mut self, line: Line) -> Result<()> {
        serde_json::to_writer(&mut self.file, &line)?;
        self.file.write_all(b"\n")?;
        // Somebody may be watching, and an interrupted run is worth something, too.
        self.file.flush().context("cannot write the result lines")?;
        self.lines.push(line);
        Ok(())
    }

    /// All lines so far.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Tells where the run is. On a terminal the next message takes its place.
    pub fn progress(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        // Nobody there to read it is no reason to stop.
        let _ = if self.rewrites {
            let padding = " ".repeat(self.shown.saturating_sub(text.chars().count()));
            self.shown = text.chars().count();
            write!(io::stderr(), "\r{text}{padding}").and_then(|()| io::stderr().flush())
        } else {
            writeln!(io::stderr(), "{text}")
        };
    }

    /// Tells something that stays.
    pub fn say(&mut self, text: &str) {
        self.end_progress();
        if !self.quiet {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// Leaves the line that is being rewritten.
    pub fn end_progress(&mut self) {
        if self.rewrites && self.shown > 0 {
            let _ = writeln!(io::stderr());
            self.shown = 0;
        }
    }
}
