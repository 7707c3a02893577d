//! Limits of failed sign-ins.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

const WINDOW_US: i64 = 15 * 60 * 1_000_000;
/// Failures of an account from one address, of an account from anywhere, and from one address.
/// The second is larger, so that others can hardly keep the owner of an account out.
const PAIR_MAX: u32 = 5;
const USER_MAX: u32 = 50;
const ADDRESS_MAX: u32 = 30;
/// Keys that are remembered; the oldest are forgotten first.
const KEYS_MAX: usize = 100_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Pair(String, Option<IpAddr>),
    User(String),
    Address(Option<IpAddr>),
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    since_us: i64,
}

/// Failed sign-ins of the last 15 minutes.
#[derive(Debug, Default)]
pub struct Attempts {
    failures: Mutex<BTreeMap<Key, Failures>>,
}

impl Attempts {
    /// Permits a try, and counts it as failed until [`Attempts::succeed`].
    ///
    /// # Errors
    /// Too many have failed: seconds to wait.
    pub fn begin(&self, user: &str, address: Option<IpAddr>, now_us: i64) -> Result<(), u32> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= KEYS_MAX {
            failures.retain(|_, it| now_us.saturating_sub(it.since_us) < WINDOW_US);
        }
        if failures.len() >= KEYS_MAX {
            failures.clear();
        }
        let keys = keys(user, address);
        for (key, max) in &keys {
            let Some(known) = failures.get(key) else { continue };
            let left_us = known.since_us.saturating_add(WINDOW_US).saturating_sub(now_us);
            if left_us > 0 && known.count >= *max {
                return Err(u32::try_from(left_us / 1_000_000 + 1).unwrap_or(u32::MAX));
            }
        }
        for (key, _) in keys {
            let new = Failures { count: 0, since_us: now_us };
            let known = failures.entry(key).or_insert(new);
            if now_us.saturating_sub(known.since_us) >= WINDOW_US {
                *known = new;
            }
            known.count += 1;
        }
        Ok(())
    }

    /// The try was no failure.
    pub fn succeed(&self, user: &str, address: Option<IpAddr>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, _) in keys(user, address) {
            if let Key::Pair(..) = key {
                failures.remove(&key);
            } else if let Some(known) = failures.get_mut(&key) {
                known.count = known.count.saturating_sub(1);
            }
        }
    }
}

fn keys(user: &str, address: Option<IpAddr>) -> [(Key, u32); 3] {
    [
        (Key::Pair(user.to_owned(), address), PAIR_MAX),
        (Key::User(user.to_owned()), USER_MAX),
        (Key::Address(address), ADDRESS_MAX),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn an_account_is_locked_for_one_address_and_not_for_all() {
        let attempts = Attempts::default();
        for _ in 0..PAIR_MAX {
            attempts.begin("ann", address(1), 0).unwrap();
        }
        assert_eq!(attempts.begin("ann", address(1), 1_000_000), Err(900));
        attempts.begin("ann", address(2), 0).unwrap();
        attempts.succeed("ann", address(2));
        attempts.begin("ann", address(1), WINDOW_US).unwrap();
    }

    #[test]
    fn many_accounts_from_one_address_are_limited() {
        let attempts = Attempts::default();
        let tries = (0..100).filter(|n| attempts.begin(&format!("u{n}"), address(1), 0).is_ok());
        assert_eq!(tries.count() as u32, ADDRESS_MAX);
        attempts.begin("other", address(2), 0).unwrap();
    }

    #[test]
    fn success_does_not_count() {
        let attempts = Attempts::default();
        for _ in 0..200 {
            attempts.begin("ann", address(1), 0).unwrap();
            attempts.succeed("ann", address(1));
        }
    }
}
