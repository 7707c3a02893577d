//! The counters of a running capture: on a terminal, and in a file for Prometheus.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tacho_capture::metrics::Metrics;
use tacho_progress::Progress;

use crate::say::{self, counted};

/// How often the file is written.
const EVERY: Duration = Duration::from_secs(5);

/// Shows the counters.
pub struct Figures {
    interface: String,
    progress: Progress,
    file: Option<PathBuf>,
    written_at: Option<Instant>,
    /// The last problem with the file, which is reported once.
    problem: String,
}

impl Figures {
    /// Of this interface; `file` is that of a textfile collector.
    pub fn new(interface: &str, file: Option<PathBuf>) -> Figures {
        Figures {
            interface: interface.to_owned(),
            progress: Progress::new(true),
            file,
            written_at: None,
            problem: String::new(),
        }
    }

    /// Shows them, unless they were shown just now.
    pub fn show(&mut self, metrics: &Metrics) {
        self.progress.show(|| line(metrics));
        if self.written_at.is_none_or(|at| at.elapsed() >= EVERY) {
            self.write(metrics);
        }
    }

    /// The last ones.
    pub fn finish(&mut self, metrics: &Metrics) {
        self.progress.end();
        self.write(metrics);
    }

    fn write(&mut self, metrics: &Metrics) {
        self.written_at = Some(Instant::now());
        let Some(file) = &self.file else { return };
        let problem = match replace(file, &metrics.text(&self.interface)) {
            Ok(()) => String::new(),
            Err(error) => format!("cannot write the counters to {}: {error}", file.display()),
        };
        if problem != self.problem && !problem.is_empty() {
            self.progress.end();
            say::problem(&problem);
        }
        self.problem = problem;
    }
}

fn line(metrics: &Metrics) -> String {
    let recorded = &metrics.recorded;
    let mut line = format!(
        "{}, {}, {}; {} dropped, {}",
        counted(metrics.packets, "packet"),
        counted(metrics.followed, "connection"),
        counted(recorded.statements, "statement"),
        metrics.dropped,
        counted(recorded.lost_lines(), "lost line")
    );
    if recorded.encrypted > 0 {
        line += &format!("; {}", say::not_seen(recorded.encrypted));
    }
    if let Some(enrich) = metrics.enrich {
        line += &format!("; {} without packets", counted(enrich.local_sessions, "session"));
    }
    line
}

/// Replaces a file, so that no reader finds a part of it.
fn replace(file: &PathBuf, text: &str) -> io::Result<()> {
    let mut name = file.clone().into_os_string();
    // The collector reads only names that end in `.prom`.
    name.push(".new");
    let new = PathBuf::from(name);
    File::create(&new)?.write_all(text.as_bytes())?;
    std::fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_connections_are_shown_if_there_are_some() {
        let mut metrics = Metrics { packets: 7, ..Metrics::default() };
        let shown = line(&metrics);
        assert_eq!(shown, "7 packets, 0 connections, 0 statements; 0 dropped, 0 lost lines");
        metrics.recorded.encrypted = 2;
        let more = "; 2 connections are encrypted: their statements are not seen";
        assert_eq!(line(&metrics), shown + more);
    }
}
