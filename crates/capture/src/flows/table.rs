//! Connections by their addresses.
//!
//! The hash of the addresses has a secret key, because whoever sends packets chooses them, and it
//! takes longer than anything else that is done with a segment in order. So the table first looks
//! where the last connection with the same ports was, without a key: an attacker can make that look
//! vain, which costs a comparison more than no look at all.

use std::collections::HashMap;

use super::Key;
use super::flow::Flow;

/// Places that are remembered: a power of two.
const RECENT_COUNT: usize = 1024;

/// All connections, see the module documentation.
pub(super) struct Table {
    /// The index of each connection in `flows`.
    indexes: HashMap<Key, usize>,
    flows: Vec<Option<(Key, Flow)>>,
    /// Indexes without a connection.
    free: Vec<usize>,
    /// Where to look first, by the ports. What is there may be another connection, or none.
    recent: Box<[usize; RECENT_COUNT]>,
}

impl Table {
    pub fn new() -> Table {
        Table {
            indexes: HashMap::new(),
            flows: Vec::new(),
            free: Vec::new(),
            recent: Box::new([0; RECENT_COUNT]),
        }
    }

    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// Whether it is where the table looks first.
    pub fn is_recent(&self, key: &Key) -> bool {
        self.is_at(self.recent[place(key)], key)
    }

    fn is_at(&self, index: usize, key: &Key) -> bool {
        matches!(self.flows.get(index), Some(Some((found, _))) if found == key)
    }

    fn index(&self, key: &Key) -> Option<usize> {
        let recent = self.recent[place(key)];
        if self.is_at(recent, key) { Some(recent) } else { self.indexes.get(key).copied() }
    }

    pub fn contains(&self, key: &Key) -> bool {
        self.index(key).is_some()
    }

    pub fn get(&self, key: &Key) -> Option<&Flow> {
        let (_, flow) = self.flows.get(self.index(key)?)?.as_ref()?;
        Some(flow)
    }

    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Flow> {
        let index = self.index(key)?;
        self.recent[place(key)] = index;
        let (_, flow) = self.flows.get_mut(index)?.as_mut()?;
        Some(flow)
    }

    /// Adds a connection whose addresses no other one has.
    pub fn insert(&mut self, key: Key, flow: Flow) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() - 1
        });
        self.flows[index] = Some((key, flow));
        self.indexes.insert(key, index);
        self.recent[place(&key)] = index;
    }

    pub fn remove(&mut self, key: &Key) -> Option<Flow> {
        let index = self.indexes.remove(key)?;
        self.free.push(index);
        let (_, flow) = self.flows[index].take()?;
        Some(flow)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Flow)> {
        self.flows.iter().flatten().map(|(key, flow)| (key, flow))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut().flatten().map(|(_, flow)| flow)
    }
}

/// Where a connection is remembered: the same for both directions.
fn place(Key(client, server): &Key) -> usize {
    usize::from(client.port() ^ server.port()) % RECENT_COUNT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::Limits;

    fn key(client: &str) -> Key {
        Key(client.parse().expect("an address"), ([192, 0, 2, 1], 3306).into())
    }

    fn add(table: &mut Table, key: Key, number: u32) {
        table.insert(key, Flow::new(key, number, true, true, Limits::default()));
    }

    fn number(table: &mut Table, key: Key) -> Option<u32> {
        assert_eq!(table.contains(&key), table.get_mut(&key).is_some());
        table.get(&key).map(Flow::number)
    }

    #[test]
    fn connections_with_the_same_place_are_told_apart() {
        let keys = ["10.0.0.1:4000", "10.0.0.2:4000", "10.0.0.1:5024", "[::1]:4000"].map(key);
        assert!(keys.iter().all(|it| place(it) == place(&keys[0])));
        let mut table = Table::new();
        assert_eq!(number(&mut table, keys[0]), None);
        for (it, of) in keys.into_iter().zip(1..) {
            add(&mut table, it, of);
        }
        for _ in 0..2 {
            for (it, of) in keys.into_iter().zip(1..) {
                assert_eq!(number(&mut table, it), Some(of));
                assert_eq!(keys.map(|key| table.is_recent(&key)), keys.map(|key| key == it));
            }
        }
        let Key(client, server) = keys[3];
        assert_eq!(number(&mut table, Key(server, client)), None, "the other direction");
        assert_eq!((table.len(), table.iter().count(), table.values_mut().count()), (4, 4, 4));
    }

    #[test]
    fn a_place_that_is_used_again_has_the_new_connection_only() {
        let [one, other] = ["10.0.0.1:4000", "10.0.0.2:4000"].map(key);
        let mut table = Table::new();
        add(&mut table, one, 1);
        assert_eq!(table.remove(&one).map(|flow| flow.number()), Some(1));
        assert!(table.remove(&one).is_none());
        assert_eq!((number(&mut table, one), table.is_recent(&one)), (None, false));
        add(&mut table, other, 2);
        assert_eq!((number(&mut table, one), number(&mut table, other)), (None, Some(2)));
        add(&mut table, one, 3);
        assert_eq!((number(&mut table, one), number(&mut table, other)), (Some(3), Some(2)));
        assert_eq!(table.flows.len(), 2);
    }
}
