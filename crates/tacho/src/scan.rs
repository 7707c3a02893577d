//! What a command that reads a log says on stderr: problems, and the progress of a long scan.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::say;
use crate::tail::Verdict;
use crate::tail::sanitize::sanitize;

/// A scan that takes longer than this shows its progress.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// How much is read between two checks of the clock and of Ctrl-C.
const TICK_BYTES: u64 = 1 << 20;

/// Messages of one run.
pub struct Scan {
    /// Broken lines and unreadable files so far.
    pub problem_count: u64,
    stop: Arc<AtomicBool>,
    progress: Progress,
    once: Once,
}

/// What is not reported again.
#[derive(Default)]
struct Once {
    known: HashSet<String>,
    /// Whether what is reported now becomes known.
    is_learning: bool,
}

impl Once {
    fn is_known(&mut self, text: &str) -> bool {
        if self.is_learning {
            !self.known.insert(text.to_owned())
        } else {
            self.known.contains(text)
        }
    }
}

struct Progress {
    enabled: bool,
    shown: bool,
    next: Instant,
    scanned_bytes: u64,
    total_bytes: u64,
    tick_bytes: u64,
}

/// What is due after some bytes were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A check for Ctrl-C.
    Check,
    /// The same, and before it [`Scan::show_progress`], when the output so far is shown: it must
    /// be above the progress line, not in the middle of it.
    Progress,
}

impl Scan {
    /// Ctrl-C sets `stop`.
    pub fn new(stop: Arc<AtomicBool>) -> Self {
        Self {
            problem_count: 0,
            stop,
            progress: Progress {
                enabled: io::stderr().is_terminal(),
                shown: false,
                next: Instant::now() + PROGRESS_AFTER,
                scanned_bytes: 0,
                total_bytes: 0,
                tick_bytes: 0,
            },
            once: Once::default(),
        }
    }

    /// A part of the log is read several times: what is reported from now on, is reported once.
    pub fn report_once(&mut self) {
        self.once.is_learning = true;
    }

    /// That part was read for the first time: what is new from now on, is reported each time.
    pub fn report_each(&mut self) {
        self.once.is_learning = false;
    }

    /// Reports a problem of the data, and counts it.
    pub fn problem_at(&mut self, path: &Path, offset: Option<u64>, reason: &str) {
        let text = problem_text(path, offset, reason);
        if !self.once.is_known(&text) {
            self.problem_count += 1;
            self.print(&text);
        }
    }

    /// Reports that older lines did not fit into memory.
    pub fn out_of_room(&mut self, path: &Path, bytes_max: usize) {
        let reason = format!(
            "older lines are not shown, because the newest ones are longer than {bytes_max} bytes in \
             all; request fewer lines or raise --max-line-size"
        );
        self.problem_at(path, None, &reason);
    }

    /// Prints information that is not a problem.
    pub fn note(&mut self, text: &str) {
        if !self.once.is_known(text) {
            self.print(text);
        }
    }

    fn print(&mut self, text: &str) {
        self.clear_progress();
        // A closed stderr must not stop the log; the exit code still says it.
        let _ = writeln!(io::stderr(), "tacho: {}", sanitize(text));
    }

    /// So many more bytes will be read.
    pub fn expect(&mut self, bytes: u64) {
        self.progress.total_bytes += bytes;
    }

    /// Counts bytes that were read.
    pub fn scanned(&mut self, bytes: u64) -> Due {
        self.progress.scanned_bytes += bytes;
        self.progress.tick_bytes += bytes;
        if self.progress.tick_bytes < TICK_BYTES {
            return Due::Nothing;
        }
        self.progress.tick_bytes = 0;
        let is_due = self.progress.enabled && Instant::now() >= self.progress.next;
        if is_due { Due::Progress } else { Due::Check }
    }

    /// So many bytes were read in all, on other threads. Shows the progress if that is due.
    pub fn scanned_to(&mut self, bytes: u64) {
        self.progress.scanned_bytes = bytes;
        if self.progress.enabled && Instant::now() >= self.progress.next {
            self.show_progress();
        }
    }

    /// Shows how far it is.
    pub fn show_progress(&mut self) {
        self.progress.next = Instant::now() + PROGRESS_INTERVAL;
        self.progress.shown = true;
        let _ = write!(
            io::stderr(),
            "\r\x1b[Kscanned {} of {}",
            mebibytes(self.progress.scanned_bytes),
            mebibytes(self.progress.total_bytes)
        );
    }

    /// Clears the progress line.
    pub fn clear_progress(&mut self) {
        if std::mem::take(&mut self.progress.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Whether Ctrl-C was pressed.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports the number of problems.
    pub fn finish(&mut self) -> Verdict {
        self.clear_progress();
        let problem_count = self.problem_count;
        if problem_count > 0 {
            let problems = say::counted(problem_count, "problem");
            self.note(&format!("{problems} found, see above"));
        }
        Verdict { problem_count }
    }
}

/// A problem with a file, or with the line at an offset.
pub fn problem_text(path: &Path, offset: Option<u64>, reason: &str) -> String {
    let place = offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
    format!("{}{place}: {reason}", path.display())
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes / (1 << 20) * 10 + bytes % (1 << 20) * 10 / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mebibytes_have_one_decimal() {
        assert_eq!(mebibytes(0), "0.0 MiB");
        assert_eq!(mebibytes((3 << 20) + (1 << 19)), "3.5 MiB");
        assert_eq!(mebibytes(u64::MAX), "17592186044415.9 MiB");
    }

    #[test]
    fn a_second_reading_reports_nothing_again() {
        let mut scan = Scan::new(Arc::default());
        let path = Path::new("a.jsonl");
        scan.report_once();
        for _ in 0..2 {
            scan.problem_at(path, Some(7), "broken");
        }
        assert_eq!(scan.problem_count, 1);
        scan.report_each();
        scan.problem_at(path, Some(7), "broken");
        assert_eq!(scan.problem_count, 1);
        for _ in 0..2 {
            scan.problem_at(path, Some(9), "broken");
        }
        assert_eq!(scan.problem_count, 3);
    }

    #[test]
    fn checks_are_due_by_bytes() {
        let mut scan = Scan::new(Arc::default());
        scan.progress.enabled = false;
        assert_eq!(scan.scanned(TICK_BYTES - 1), Due::Nothing);
        assert_eq!(scan.scanned(1), Due::Check);
        assert_eq!(scan.scanned(1), Due::Nothing);
        scan.progress.enabled = true;
        scan.progress.next = Instant::now();
        assert_eq!(scan.scanned(TICK_BYTES), Due::Progress);
    }
}
