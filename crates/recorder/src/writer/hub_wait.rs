//! Decides whether a due file waits for the hubs of `tacho ship` (`tacho_retention_unshipped`).
//!
//! A shipper writes into `.shipped` which files its hub has ([`tacho_logdir::shipped`]). A due file
//! that a hub does not have stays, whatever the reason for its removal, and with it all newer
//! files. A hub that is away for long must not stop the database, which waits when the disk is
//! full: if little is free, due files are removed nevertheless, oldest first and only until there
//! is enough again. The line about such a removal names the hubs.

use tacho_logdir::shipped::{FREE_PERCENT_MIN, Unshipped, Wait};
use tacho_logdir::{Due, Fs, LogFiles, Outlook};
use tacho_record::time::TimeFormatter;
use tacho_settings::Setting;

use super::brake::HOUR_US;
use super::context::Context;
use super::rate_limit::RateLimit;
use super::retention::setting_of;
use crate::control::Severity;

/// The value of [`Setting::RetentionUnshipped`] that waits for no hub.
const REMOVE: u64 = 1;
/// Interval between warnings about the same wait, µs.
const WARN_EVERY_US: i64 = 24 * HOUR_US;

/// State of the wait.
#[derive(Default)]
pub(super) struct HubWait {
    /// A due file waits: time of the last warning.
    warned_at_us: Option<i64>,
    /// Why `.shipped` is ignored, as it was reported last.
    ignored: Option<String>,
    limit: RateLimit,
}

/// What happens to a due file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It stays until the hubs have it.
    Wait,
    /// It may be removed. If a hub does not have it: which.
    Remove(Option<Lack>),
}

/// A file that is removed although a hub does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    /// Which hubs do not have it.
    pub(super) hubs: String,
    /// Why it is removed nevertheless; empty: the setting permits it.
    pub(super) cause: String,
}

impl HubWait {
    /// Decides about the due file of an outlook.
    pub(super) fn judge<F: Fs>(
        &mut self,
        outlook: &Outlook,
        due: Due,
        files: &LogFiles<F>,
        now_us: i64,
        context: &Context,
    ) -> Result<Verdict, String> {
        self.report_ignored(outlook, context);
        let Some(unshipped) = &outlook.unshipped else {
            if self.warned_at_us.take().is_some() {
                let text =
                    "the hubs have acknowledged the log files that waited: retention continues";
                context.say(Severity::Note, text);
            }
            return Ok(Verdict::Remove(None));
        };
        let hubs = unshipped.to_string();
        let is_permitted = context.control.setting(Setting::RetentionUnshipped) == REMOVE;
        let wait = Wait::of(is_permitted, || files.space().map_err(|error| error.to_string()))?;
        let cause = match wait {
            Wait::Stays => None,
            Wait::Permitted => Some(String::new()),
            Wait::NearlyFull => {
                Some(format!(": less than {FREE_PERCENT_MIN} per cent of its file system was free"))
            }
        };
        if let Some(cause) = cause {
            return Ok(Verdict::Remove(Some(Lack { hubs, cause })));
        }
        let is_news = self.warned_at_us.is_none_or(|at_us| now_us - at_us >= WARN_EVERY_US);
        if is_news {
            self.warned_at_us = Some(now_us);
        }
        let text = waiting_text(unshipped, due, outlook.ended_s, files, context);
        context.report(Severity::Warning, &text, is_news && self.limit.allows(now_us));
        Ok(Verdict::Wait)
    }

    /// Reports once that a file which another account may have created is not the shippers' list.
    fn report_ignored(&mut self, outlook: &Outlook, context: &Context) {
        if outlook.shipped_ignored == self.ignored {
            return;
        }
        self.ignored.clone_from(&outlook.shipped_ignored);
        if let Some(reason) = &self.ignored {
            let text = format!("{reason}; it is ignored, so retention does not wait for a hub");
            context.report(Severity::Warning, &text, true);
        }
    }
}

/// The message about a due file that stays.
fn waiting_text<F: Fs>(
    unshipped: &Unshipped,
    due: Due,
    ended_s: i64,
    files: &LogFiles<F>,
    context: &Context,
) -> String {
    let why = match unshipped {
        Unshipped::Behind(_) => unshipped.to_string(),
        Unshipped::Unknown(reason) => format!("{unshipped} ({reason})"),
    };
    let mut utc = TimeFormatter::utc();
    let ended = String::from_utf8_lossy(utc.format(ended_s.saturating_mul(1_000_000)).as_slice());
    let setting = context.name(Setting::RetentionUnshipped);
    format!(
        "{} is due ({}) and stays, with all newer files: it ended at {}Z and is {why}. Check the \
         hub and `tacho ship`. If a hub is gone for good, remove its line from {}. To remove due \
         files in any case: SET GLOBAL {setting}=REMOVE",
        due.name.log_file(),
        context.name(setting_of(due.reason)),
        // Without the fraction of a second and the offset.
        ended.get(..19).unwrap_or(&ended),
        files.directory().join(tacho_logdir::shipped::NAME).display(),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use tacho_logdir::faulty::FaultyFs;
    use tacho_logdir::shipped::{HubLine, NAME, format};
    use tacho_logdir::{FileName, Keep, Options, RemovalReason};

    use super::*;
    use crate::control::{Control, Status};

    const DIR: &str = "/log";
    const KEEP: Keep = Keep { days: 0, bytes: 0, files: 1 };

    /// A log of four closed files, the hubs of which have some.
    struct Scene {
        fs: FaultyFs,
        files: LogFiles<FaultyFs>,
        context: Context,
        said: Arc<Mutex<Vec<(Severity, String)>>>,
        wait: HubWait,
    }

    impl Scene {
        fn new() -> Scene {
            let fs = FaultyFs::new();
            let options = Options { rotate_bytes: 0 };
            let (mut files, _) = LogFiles::open(fs.clone(), Path::new(DIR), options).unwrap();
            for seq in 1..=4 {
                let pad = "x".repeat(1000);
                let line = format!("{{\"v\":1,\"seq\":{seq},\"a\":\"{pad}\"}}\n");
                files.write(line.as_bytes(), &mut 0).unwrap();
                fs.set_now_s(seq);
                files.rotate_now().unwrap();
            }
            let said = Arc::new(Mutex::new(Vec::new()));
            let taken = Arc::clone(&said);
            let log = Box::new(move |severity, text: &str| {
                taken.lock().unwrap().push((severity, text.to_owned()));
            });
            let context =
                Context::new(Arc::new(Control::default()), Arc::new(Status::default()), log);
            Scene { fs, files, context, said, wait: HubWait::default() }
        }

        /// The hub has this many files.
        fn ship(&self, count: i64) {
            let after = |name, at_s| Some(FileName::after(name, at_s));
            let acknowledged = (0..count).fold(None, after);
            let (hub, origin) = ("https://hub".to_owned(), "db1".to_owned());
            let text = format(&[HubLine { acknowledged, hub, origin }]);
            self.fs.replace(&Path::new(DIR).join(NAME), text.as_bytes(), true).unwrap();
        }

        fn judge(&mut self, now_us: i64) -> Verdict {
            let outlook = self.files.outlook(&KEEP).unwrap();
            let due = outlook.due[0];
            assert_eq!((due.name.number(), due.reason), (1, RemovalReason::Count));
            self.wait.judge(&outlook, due, &self.files, now_us, &self.context).unwrap()
        }

        fn said(&self) -> Vec<(Severity, String)> {
            std::mem::take(&mut *self.said.lock().unwrap())
        }
    }

    #[test]
    fn a_file_waits_until_the_hub_has_it() {
        let mut scene = Scene::new();
        assert_eq!(scene.judge(0), Verdict::Remove(None), "there is no hub");
        scene.ship(0);
        assert_eq!(scene.judge(1), Verdict::Wait);
        let said = scene.said();
        let [(Severity::Warning, text)] = &said[..] else { panic!("{said:?}") };
        for part in [
            "audit-19700101T000000Z-000001.jsonl is due (tacho_retention_files) and stays",
            "it ended at 1970-01-01T00:00:01Z and is not shipped to https://hub as db1. Check",
            "remove its line from /log/.shipped.",
            "SET GLOBAL tacho_retention_unshipped=REMOVE",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Again after a day.
        assert_eq!(scene.judge(WARN_EVERY_US), Verdict::Wait);
        assert_eq!(scene.said(), []);
        assert_eq!(scene.judge(WARN_EVERY_US + 1), Verdict::Wait);
        assert_eq!(scene.said().len(), 1);
        scene.ship(1);
        assert_eq!(scene.judge(WARN_EVERY_US + 2), Verdict::Remove(None));
        let said = scene.said();
        assert!(matches!(&said[..], [(Severity::Note, text)] if text.contains("acknowledged")));
    }

    #[test]
    fn the_setting_removes_and_the_hubs_are_named() {
        let mut scene = Scene::new();
        scene.ship(0);
        scene.context.control.set(Setting::RetentionUnshipped, REMOVE);
        let hubs = "not shipped to https://hub as db1".to_owned();
        let lack = Lack { hubs, cause: String::new() };
        assert_eq!(scene.judge(0), Verdict::Remove(Some(lack)));
        assert_eq!(scene.said(), []);
    }

    #[test]
    fn a_disk_that_is_nearly_full_does_not_wait() {
        let mut scene = Scene::new();
        scene.ship(0);
        // A tenth is free.
        scene.fs.set_room(Some(500));
        assert_eq!(scene.judge(0), Verdict::Wait);
        scene.fs.set_room(Some(100));
        let Verdict::Remove(Some(lack)) = scene.judge(1) else { panic!("it waits") };
        assert_eq!(lack.hubs, "not shipped to https://hub as db1");
        assert!(lack.cause.contains("less than 5 per cent"), "{}", lack.cause);
        scene.fs.set_room(Some(500));
        assert_eq!(scene.judge(2), Verdict::Wait, "only until there is enough again");
    }

    #[test]
    fn a_damaged_list_keeps_files() {
        let mut scene = Scene::new();
        scene.fs.replace(&Path::new(DIR).join(NAME), b"x\n", true).unwrap();
        assert_eq!(scene.judge(0), Verdict::Wait);
        let said = scene.said();
        assert!(said[0].1.contains("(/log/.shipped is not valid)"), "{said:?}");
    }
}
