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
    /// The end of what is durable, bytes; 0: it is not there any more.
    pub offset: u64,
    /// It was cut since the last news: other bytes may follow an offset that was published.
    pub was_cut: bool,
}

/// Of each generation the files, and of each file its end, and whether it was cut.
type Offsets = BTreeMap<(Origin, u64), BTreeMap<FileName, (u64, bool)>>;

/// The durable offsets of all files of the current generations, and of those files of former ones
/// that got bytes there: each byte is in the generation in which it has landed first.
#[derive(Default)]
pub struct Feed {
    state: Mutex<Subscriptions>,
}

#[derive(Default)]
struct Subscriptions {
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
        let mut state = hold(&self.state);
        insert(&mut state.all, landed, false);
        state.tell(|news| {
            insert(&mut news.offsets, landed, landed.was_cut);
            true
        });
    }

    /// A file was removed from the disk: subscribers read that it has no bytes.
    pub fn remove(&self, origin: &Origin, generation: u64, file: &FileName) {
        let mut state = hold(&self.state);
        if let Some(files) = state.all.get_mut(&(origin.clone(), generation)) {
            files.remove(file);
        }
        let (origin, file) = (origin.clone(), file.clone());
        let gone = Landed { origin, generation, file, offset: 0, was_cut: false };
        state.tell(|news| {
            insert(&mut news.offsets, &gone, false);
            true
        });
    }

    /// A generation has ended. `is_inherited`: a file got nothing in it.
    pub fn end(&self, origin: &Origin, generation: u64, is_inherited: &dyn Fn(&FileName) -> bool) {
        let key = (origin.clone(), generation);
        let mut state = hold(&self.state);
        let forget = |offsets: &mut Offsets| {
            if let Some(files) = offsets.get_mut(&key) {
                files.retain(|name, _| !is_inherited(name));
            }
            offsets.retain(|_, files| !files.is_empty());
        };
        forget(&mut state.all);
        state.tell(|news| {
            forget(&mut news.offsets);
            false
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

impl Subscriptions {
    /// Changes the news of all subscribers that are still there, and wakes them if it returns true.
    fn tell(&mut self, change: impl Fn(&mut News) -> bool) {
        self.subscribers.retain(|subscriber| {
            let Some(shared) = subscriber.upgrade() else { return false };
            if change(&mut hold(&shared.news)) {
                shared.wakeup.notify_one();
            }
            true
        });
    }
}

fn insert(offsets: &mut Offsets, landed: &Landed, was_cut: bool) {
    let files = offsets.entry((landed.origin.clone(), landed.generation)).or_default();
    let known = files.entry(landed.file.clone()).or_default();
    *known = (landed.offset, known.1 || was_cut);
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
        let mut landed = Vec::new();
        for ((origin, generation), files) in offsets {
            landed.extend(files.into_iter().map(|(file, (offset, was_cut))| {
                let origin = origin.clone();
                Landed { origin, generation, file, offset, was_cut }
            }));
        }
        landed
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
        Landed { origin, generation: 1, file: file.parse().unwrap(), offset, was_cut: false }
    }

    #[test]
    fn files_that_got_nothing_in_a_former_generation_are_not_in_it() {
        let feed = Feed::default();
        let subscription = feed.subscribe();
        let (old, own) = ("audit-20261121T100000Z-000001.jsonl", "removed.chain");
        feed.publish(&landed(old, 7));
        feed.publish(&landed(own, 2));
        feed.end(&"db1".parse().unwrap(), 1, &|name| name.to_string() == old);
        let next = Landed { generation: 2, ..landed(old, 7) };
        feed.publish(&next);
        for subscription in [subscription, feed.subscribe()] {
            assert_eq!(subscription.wait(Duration::MAX), [landed(own, 2), next.clone()]);
        }
    }

    #[test]
    fn a_cut_is_news_until_it_is_read() {
        let feed = Feed::default();
        let subscription = feed.subscribe();
        let cut = Landed { was_cut: true, ..landed("removed.chain", 7) };
        feed.publish(&cut);
        feed.publish(&landed("removed.chain", 9));
        assert_eq!(subscription.wait(Duration::MAX), [Landed { offset: 9, ..cut }]);
        feed.publish(&landed("removed.chain", 10));
        assert_eq!(subscription.wait(Duration::MAX), [landed("removed.chain", 10)]);
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
