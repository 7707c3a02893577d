//! Heartbeats.

use std::time::{SystemTime, UNIX_EPOCH};

use tacho_logdir::read::files::LogFile;
use tacho_logdir::{Fs as _, RealFs};

use super::client::Failure;
use super::shipper::Shipper;
use crate::protocol::answers::{Heartbeat, Problem};
use crate::protocol::names::Stem;
use crate::protocol::{FileName, PROBLEMS_MAX};
use crate::source::look::Look;

impl Shipper {
    /// Tells the hub that the shipper is alive, and follows its hints.
    pub(super) fn heartbeat(&mut self, next_s: u32) -> Result<(), Failure> {
        let look = self.look().unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let problems = self.problems.iter().take(PROBLEMS_MAX);
        let heartbeat = Heartbeat {
            time_us: i64::try_from(now.as_micros()).unwrap_or(i64::MAX),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: self.options.host.clone(),
            next_s,
            recorder: tacho_logdir::is_locked(&self.options.directory),
            oldest: look.logs.keys().next().cloned(),
            newest: look.logs.keys().next_back().cloned(),
            behind_bytes: self.behind(&look),
            unsealed_bytes: self.unsealed_bytes,
            free_bytes: RealFs.space(&self.options.directory).ok().map(|space| space.free_bytes),
            problems: problems
                .map(|((file, code), message)| Problem {
                    code: (*code).to_owned(),
                    file: Some(file.clone()),
                    message: message.clone(),
                })
                .collect(),
            activity: self.options.activity.as_ref().and_then(|latest| latest()),
        };
        let answer = self.client.heartbeat(&heartbeat)?;
        self.follow(answer.hints);
        if self.copy.as_ref().is_some_and(|copy| copy.generation != answer.generation) {
            self.copy = None;
        }
        Ok(())
    }

    /// Bytes of plain log files that the hub does not have.
    fn behind(&self, look: &Look) -> u64 {
        let Some(copy) = &self.copy else { return 0 };
        let left = |(stem, log): (&Stem, &LogFile)| {
            let length = std::fs::metadata(&log.path).ok()?.len();
            Some(length.saturating_sub(copy.offset(&FileName::Lines(stem.clone()))))
        };
        let is_open = |(stem, _): &(&Stem, &LogFile)| !copy.complete.contains(*stem);
        look.logs
            .iter()
            .filter(is_open)
            .filter_map(left)
            .sum::<u64>()
            .saturating_sub(self.unsealed_bytes)
    }
}
