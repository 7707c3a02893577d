//! Whether the hub's clock can be right.
//!
//! Retention compares times of records with the clock of the hub. If that clock were set years
//! ahead, everything would be due at once. So another machine has to agree with it: nothing is
//! removed before the newest record or the last heartbeat of some server has nearly the same time.
//!
//! The hub's own log has the hub's clock, and so have the logs that `--log` follows on the hub's
//! machine: neither is another machine. A hub that has no other logs could never remove anything;
//! there, and only there, the logs of its machine count.

use std::collections::BTreeSet;

use tacho_ship::protocol::Origin;

use super::forecast::DAY_US;
use crate::audit::is_hub;
use crate::clock::now_us;
use crate::landing::shippers::Shippers;
use crate::landing::{Landing, OriginView};

/// How much a time of another machine may differ, µs: longer than a long weekend, and short beside
/// any retention that matters.
const TOLERANCE_US: i64 = 7 * DAY_US;

/// The hub's clock at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// µs since 1970-01-01 UTC.
    pub now_us: i64,
    /// Some server has nearly the same time.
    pub is_confirmed: bool,
}

impl Clock {
    /// Compares it with what has landed. `local`: the logs of the hub's machine.
    #[must_use]
    pub fn read(landing: &Landing, local: &BTreeSet<Origin>) -> Self {
        Self::at(now_us(), &landing.origins(), local)
    }

    fn at(
        now_us: i64,
        origins: &[(Origin, OriginView, Shippers)],
        local: &BTreeSet<Origin>,
    ) -> Self {
        let servers = || origins.iter().filter(|(origin, ..)| !is_hub(origin));
        let has_others = servers().any(|(origin, ..)| !local.contains(origin));
        let is_confirmed = servers()
            .filter(|(origin, ..)| !has_others || !local.contains(origin))
            .any(|(_, view, shippers)| is_confirmed(now_us, view, shippers));
        Self { now_us, is_confirmed }
    }
}

/// Whether something that a server sent has nearly the time `now_us`, µs since 1970-01-01 UTC.
fn is_confirmed(now_us: i64, view: &OriginView, shippers: &Shippers) -> bool {
    let record = view.newest_line.as_ref().and_then(|line| line.ts_us());
    let heartbeats = shippers.heartbeats().map(|heartbeat| heartbeat.time_us);
    heartbeats.chain(record).any(|us| us.saturating_sub(now_us).saturating_abs() <= TOLERANCE_US)
}

#[cfg(test)]
mod tests {
    use tacho_ship::protocol::Heartbeat;

    use super::*;
    use crate::clock::{Moment, rfc3339};
    use crate::landing::NewestLine;

    const NOW_US: i64 = 1_000 * DAY_US;

    fn view(age_days: i64) -> OriginView {
        let ts = rfc3339(NOW_US - age_days * DAY_US);
        OriginView { newest_line: Some(NewestLine { seq: 1, ts }), ..OriginView::default() }
    }

    fn shippers(age_days: i64) -> Shippers {
        let time_us = NOW_US - age_days * DAY_US;
        let text = format!(r#"{{"time_us":{time_us},"version":"1","host":"db1","next_s":10}}"#);
        let heartbeat: Heartbeat = serde_json::from_str(&text).unwrap();
        let mut shippers = Shippers::default();
        shippers.heard(None, heartbeat, Moment::at(NOW_US));
        shippers
    }

    #[test]
    fn a_record_or_a_heartbeat_of_these_days_confirms_the_clock() {
        let (none, empty) = (Shippers::default(), OriginView::default());
        assert!(!is_confirmed(NOW_US, &empty, &none));
        for (age_days, expected) in [(0, true), (7, true), (-7, true), (8, false), (-3_650, false)]
        {
            assert_eq!(is_confirmed(NOW_US, &view(age_days), &none), expected, "{age_days}");
            assert_eq!(is_confirmed(NOW_US, &empty, &shippers(age_days)), expected, "{age_days}");
        }
        assert!(is_confirmed(NOW_US, &view(400), &shippers(1)));
    }

    #[test]
    fn a_log_with_the_clock_of_the_hub_confirms_nothing() {
        let is_confirmed = |ages: &[(&str, i64)], local: &[&str]| {
            let origin = |name: &str| name.parse::<Origin>().unwrap();
            let origins: Vec<_> = ages
                .iter()
                .map(|(name, age_days)| (origin(name), view(*age_days), shippers(*age_days)))
                .collect();
            let local = local.iter().map(|name| origin(name)).collect();
            Clock::at(NOW_US, &origins, &local).is_confirmed
        };
        // After a jump of ten years.
        assert!(!is_confirmed(&[("tacho-hub", 0), ("db1", 3_650)], &[]));
        assert!(!is_confirmed(&[("tacho-hub", 0), ("db1", 3_650), ("here", 0)], &["here"]));
        assert!(!is_confirmed(&[("Tacho-Hub", 0)], &[]));
        assert!(is_confirmed(&[("tacho-hub", 0), ("db1", 1), ("here", 0)], &["here"]));
        // A hub that only has the logs of its own machine.
        assert!(is_confirmed(&[("tacho-hub", 0), ("here", 0)], &["here"]));
        assert!(!is_confirmed(&[("tacho-hub", 0), ("here", 8)], &["here"]));
    }
}
