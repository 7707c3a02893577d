//! What a run tells while it goes on: lines for a file, and where it is for the person who waits.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::lines::Line;

/// Takes all lines of a run.
#[derive(Debug, Default)]
pub struct Output {
    file: Option<BufWriter<File>>,
    partial: Option<PathBuf>,
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
        let file =
            File::create(partial).with_context(|| format!("creating {}", partial.display()))?;
        Ok(Self {
            file: Some(BufWriter::new(file)),
            partial: Some(partial.to_owned()),
            quiet,
            rewrites: io::stderr().is_terminal(),
            ..Self::default()
        })
    }

    /// The run is complete: its file is called `path` from now on, and replaces what was there.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn finish(&mut self, path: &Path) -> Result<()> {
        if let Some(partial) = self.partial.take() {
            std::fs::rename(&partial, path)
                .with_context(|| format!("renaming {} to {}", partial.display(), path.display()))?;
        }
        Ok(())
    }

    /// The run failed. A file without a line is removed.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn abandon(&mut self) -> Result<()> {
        match self.partial.take() {
            Some(partial) if self.lines.is_empty() => std::fs::remove_file(&partial)
                .with_context(|| format!("removing {}", partial.display())),
            _ => Ok(()),
        }
    }

    /// Takes a line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn line(&mut self, line: Line) -> Result<()> {
        if let Some(file) = &mut self.file {
            serde_json::to_writer(&mut *file, &line)?;
            file.write_all(b"\n")?;
            // Somebody may be watching, and an interrupted run is worth something, too.
            file.flush().context("writing the result lines")?;
        }
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
