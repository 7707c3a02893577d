//! Tells other parts of the hub what has landed.
//!
//! A subscriber that is behind does not grow: per file only the newest offset is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tacho_ship::protocol::{FileName, Origin};

/// A file has so many bytes on the hub's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The origin.
    pub origin: Origin,
    /// The generation.
    pub generation: u64,
    /// The file, in [`crate::data::DataDirectory::generation`].
    pub file: FileName,
    /// The end of what is durable, bytes.
    pub offset: u64,
}

type Offsets = BTreeMap<(Origin, u64, FileName), u64>;

/// The durable offsets of all files.
#[derive(Default)]
pub struct Feed {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    all: Offsets,
    subscribers: Vec<Weak<Shared>>,
}

#[derive(Default)]
struct Shared {
    news: Mutex<News>,
    wakeup: Condvar,
}

#[derive(Default)]
struct News {
    offsets: Offsets,
    is_interrupted: bool,
}

/// News since the last look. The first has everything that is there.
pub struct Subscription {
    shared: Arc<Shared>,
}

/// Ends a wait of its subscription from another thread.
#[derive(Clone)]
pub struct Interrupter {
    shared: Weak<Shared>,
}

impl Feed {
    /// A file has grown, or is there.
    pub fn publish(&self, landed: &Landed) {
        let key = (landed.origin.clone(), landed.generation, landed.file.clone());
        let mut state = hold(&self.state);
        state.all.insert(key.clone(), landed.offset);
        state.subscribers.retain(|subscriber| {
            let Some(shared) = subscriber.upgrade() else { return false };
            hold(&shared.news).offsets.insert(key.clone(), landed.offset);
            shared.wakeup.notify_one();
            true
        });
    }

    /// Subscribes to everything that is there and that lands later.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        let mut state = hold(&self.state);
        let shared = Arc::new(Shared::default());
        hold(&shared.news).offsets = state.all.clone();
        state.subscribers.push(Arc::downgrade(&shared));
        Subscription { shared }
    }
}

impl Subscription {
    /// Waits for news, at most `timeout`; empty: there is none. Ordered by origin, generation, and
    /// file name. Blocks.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Vec<Landed> {
        let news = hold(&self.shared.news);
        let is_quiet = |news: &mut News| news.offsets.is_empty() && !news.is_interrupted;
        let waited = self.shared.wakeup.wait_timeout_while(news, timeout, is_quiet);
        let (mut news, _) = waited.unwrap_or_else(PoisonError::into_inner);
        news.is_interrupted = false;
        let offsets = std::mem::take(&mut news.offsets);
        let landed =
            |((origin, generation, file), offset)| Landed { origin, generation, file, offset };
        offsets.into_iter().map(landed).collect()
    }

    /// To end [`Subscription::wait`] from another thread, when the hub stops.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter { shared: Arc::downgrade(&self.shared) }
    }
}

impl Interrupter {
    /// Ends the wait, or the next one.
    pub fn interrupt(&self) {
        if let Some(shared) = self.shared.upgrade() {
            hold(&shared.news).is_interrupted = true;
            shared.wakeup.notify_one();
        }
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landed(file: &str, offset: u64) -> Landed {
        let origin = "db1".parse().unwrap();
        Landed { origin, generation: 1, file: file.parse().unwrap(), offset }
    }

    #[test]
    fn subscribers_get_the_newest_offset_of_every_file_once() {
        let feed = Feed::default();
        feed.publish(&landed("removed.chain", 1));
        let (one, two) = (feed.subscribe(), feed.subscribe());
        feed.publish(&landed("removed.chain", 2));
        feed.publish(&landed("audit-20261121T100000Z-000001.jsonl", 7));
        for subscription in [one, two] {
            let wanted =
                [landed("audit-20261121T100000Z-000001.jsonl", 7), landed("removed.chain", 2)];
            assert_eq!(subscription.wait(Duration::MAX), wanted);
            subscription.interrupter().interrupt();
            assert_eq!(subscription.wait(Duration::MAX), []);
        }
    }
}
