//! What a run tells while it goes on: lines for a file, and where it is for the person who waits.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::{Context, Result};

use crate::lines::Line;

/// Takes all lines of a run.
#[derive(Debug, Default)]
pub struct Output {
    file: Option<BufWriter<File>>,
    lines: Vec<Line>,
    quiet: bool,
    rewrites: bool,
    shown: usize,
}

impl Output {
    /// Writes the lines to `path`, too, if there is one. `quiet` leaves out progress.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(path: Option<&Path>, quiet: bool) -> Result<Self> {
        let file = match path {
            Some(path) => {
                let file =
                    File::create(path).with_context(|| format!("creating {}", path.display()))?;
                Some(BufWriter::new(file))
            }
            None => None,
        };
        Ok(Self { file, quiet, rewrites: io::stderr().is_terminal(), ..Self::default() })
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
