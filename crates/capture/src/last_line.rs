//! The time of the last line of a log.

use std::path::Path;

use tacho_logdir::read::content::Access;
use tacho_logdir::read::files::Input;
use tacho_logdir::read::reader::Placed;
use tacho_logdir::read::{Lines, ReadError, Request, Sink, Window, read};

/// When the last line of a log happened, µs since 1970-01-01 UTC. `None`: there is none that can be
/// read.
pub fn time_us(directory: &Path) -> Option<i64> {
    let request = Request {
        from: None,
        lines: Lines::Last(1),
        newest_first: false,
        window: Window::default(),
        follow: false,
    };
    let mut last = Last(None);
    let input = Input::of(directory).ok()?;
    read(input, &request, &Access::default(), &mut last).ok()?;
    last.0
}

/// Keeps the time of a line.
struct Last(Option<i64>);

impl Sink for Last {
    type Error = ReadError;

    fn wants(&mut self, _: &Path, _: Placed<'_>) -> bool {
        true
    }

    fn show(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        #[derive(serde::Deserialize)]
        struct Line<'l> {
            #[serde(borrow)]
            ts: &'l str,
        }
        let line = serde_json::from_slice::<Line<'_>>(bytes).ok();
        let ts = line.and_then(|line| line.ts.parse::<jiff::Timestamp>().ok());
        self.0 = ts.map(jiff::Timestamp::as_microsecond);
        Ok(())
    }

    fn problem(&mut self, _: &Path, _: &str) {}

    fn note(&mut self, _: &str) {}
}
