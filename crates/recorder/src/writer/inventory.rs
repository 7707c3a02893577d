//! Overview of the log files, for SHOW STATUS.
//!
//! The directory is listed every ten seconds, or one second after a change to a file, but listing
//! takes at most a fiftieth of the time. The length of the current file, which changes with each
//! line, is updated in each round without a listing.

use tacho_logdir::{FileName, Fs, Inventory, LogFiles, Packing};
use tacho_record::time::TimeFormatter;
use tacho_ring::sys;
use tacho_settings::Setting;

use super::context::Context;
use super::rate_limit::RateLimit;
use crate::control::{LogFilesView, Severity};

/// Interval between listings if no file has changed, µs.
const LOOK_EVERY_US: i64 = 10_000_000;
/// Shortest interval if a file has changed, µs.
const LOOK_AGAIN_US: i64 = 1_000_000;
/// The share of time for listings is one in this many.
const PART_OF_TIME: i64 = 50;
const DAY_US: i64 = 86_400_000_000;

/// The last listing, and what is shown of it.
#[derive(Default)]
pub(super) struct InventoryWatch {
    found: Inventory,
    /// The current file at that time, and its length.
    current: Option<(FileName, u64)>,
    /// A file has changed since.
    is_news: bool,
    /// By the monotonic clock.
    looked_at_us: i64,
    /// Earliest time of the next listing.
    again_at_us: i64,
    /// What is shown.
    view: LogFilesView,
    failure_limit: RateLimit,
}

impl InventoryWatch {
    /// A file has changed.
    pub(super) fn look_soon(&mut self) {
        self.is_news = true;
    }

    /// Updates the figures. Called in every round.
    pub(super) fn update<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        packing: &Packing,
        clock: &mut TimeFormatter,
        context: &Context,
    ) {
        let now_us = sys::monotonic_us();
        let current = (files.current_name(), files.current_bytes());
        let is_same = self.current.is_some_and(|(name, _)| name == current.0);
        let is_due = self.is_news || !is_same || now_us - self.looked_at_us >= LOOK_EVERY_US;
        if is_due && now_us >= self.again_at_us {
            self.look(files, packing, current, now_us, context);
        }
        let view = self.view(files, current, clock, context);
        if view != self.view {
            self.view.clone_from(&view);
            context.status.show_log_files(view);
        }
    }

    fn look<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        packing: &Packing,
        current: (FileName, u64),
        now_us: i64,
        context: &Context,
    ) {
        let found = files.inventory(packing, &self.found);
        let took_us = sys::monotonic_us() - now_us;
        (self.looked_at_us, self.is_news) = (now_us, false);
        self.again_at_us = now_us + LOOK_AGAIN_US.max(took_us.saturating_mul(PART_OF_TIME));
        self.current = Some(current);
        match found {
            Ok(found) => self.found = found,
            Err(error) => {
                // The previous result stays until the next listing.
                if self.failure_limit.allows(now_us) {
                    context.say(Severity::Warning, &error.to_string());
                }
            }
        }
    }

    fn view<F: Fs>(
        &self,
        files: &LogFiles<F>,
        (name, bytes): (FileName, u64),
        clock: &mut TimeFormatter,
        context: &Context,
    ) -> LogFilesView {
        let found = &self.found;
        let before = self.current.filter(|(before, _)| *before == name);
        let more = bytes.saturating_sub(before.map_or(0, |(_, bytes)| bytes));
        let interval_s = context.control.setting(Setting::RotateIntervalS);
        let oldest_us = found.oldest.as_ref().map(|oldest| oldest.begun_us());
        let days = oldest_us.map_or(0, |us| sys::now_us().saturating_sub(us) / DAY_US);
        let mut time = |us: Option<i64>| {
            let text = us.map(|us| String::from_utf8_lossy(clock.format(us)).into_owned());
            text.unwrap_or_default()
        };
        let of_seconds = |s: i64| s.saturating_mul(1_000_000);
        LogFilesView {
            count: found.count,
            bytes: found.bytes.saturating_add(more),
            days: u64::try_from(days).unwrap_or(0),
            to_pack: found.to_pack,
            oldest_file: found.oldest.as_ref().map(|oldest| oldest.file()).unwrap_or_default(),
            oldest_time: time(oldest_us),
            checkpoint_time: time(files.checkpoint_s().map(of_seconds)),
            rotate_due_time: time(files.rotate_due_s(interval_s).map(of_seconds)),
        }
    }
}
