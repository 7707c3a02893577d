//! Zone: outside. Shows on a terminal how far a command is: one line on stderr that is written
//! again twice a second. Nothing is written to a file or a pipe.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Time between two updates.
const EVERY: Duration = Duration::from_millis(500);

/// The line.
#[derive(Debug)]
pub struct Progress {
    is_shown: bool,
    shown_at: Instant,
    /// Columns that the last text has.
    columns: usize,
}

impl Progress {
    /// On stderr if that is a terminal, and the line is wanted.
    #[must_use]
    pub fn new(is_wanted: bool) -> Self {
        let is_shown = is_wanted && std::io::stderr().is_terminal();
        Self { is_shown, shown_at: Instant::now(), columns: 0 }
    }

    /// Shows a text, unless one was shown just now.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        if self.is_shown && self.shown_at.elapsed() >= EVERY {
            self.shown_at = Instant::now();
            let line = over(&text(), &mut self.columns);
            // A terminal that is gone is no reason to stop.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    /// Ends the line, so that other output begins a new one.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.columns) > 0 {
            let _ = std::io::stderr().write_all(b"\n");
        }
    }
}

/// The text over the last one, which may be longer.
fn over(text: &str, columns: &mut usize) -> String {
    let line = format!("\r{text:columns$}", columns = *columns);
    *columns = text.chars().count();
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_covers_a_long_one() {
        let mut columns = 0;
        assert_eq!(over("10 MB", &mut columns), "\r10 MB");
        assert_eq!(over("9 MB", &mut columns), "\r9 MB ");
        assert_eq!(columns, 4);
    }
}
