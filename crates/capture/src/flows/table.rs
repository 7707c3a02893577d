//! Connections by their addresses.
//!
//! The hash of the addresses has a secret key, because whoever sends packets chooses them. A lookup
//! with it takes some 300 instructions, so the table first looks where the last connection with the
//! same ports was found. An attacker can make that guess fail each time: then a lookup costs one
//! comparison of addresses more than without it.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::Key;
use super::flow::Flow;
use crate::mysql::Side;

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

    /// All indexes are below this one.
    pub fn index_end(&self) -> usize {
        self.flows.len()
    }

    /// The connection of a segment between two addresses, and who sends it, if that connection is
    /// where the table looks first.
    pub fn recent(&self, from: &SocketAddr, to: &SocketAddr) -> Option<(Key, Side)> {
        let (key, _) = self.flows.get(self.recent[place(from, to)])?.as_ref()?;
        if is_same(key, from, to) {
            Some((*key, Side::Client))
        } else if is_same(key, to, from) {
            Some((*key, Side::Server))
        } else {
            None
        }
    }

    /// The index of a connection.
    pub fn find(&mut self, key: &Key) -> Option<usize> {
        let recent = &mut self.recent[place(&key.0, &key.1)];
        let at_recent = self.flows.get(*recent).and_then(Option::as_ref);
        if !at_recent.is_some_and(|(found, _)| is_same(found, &key.0, &key.1)) {
            *recent = *self.indexes.get(key)?;
        }
        Some(*recent)
    }

    /// The connection with this index.
    pub fn at(&mut self, index: usize) -> Option<&mut Flow> {
        let (_, flow) = self.flows.get_mut(index)?.as_mut()?;
        Some(flow)
    }

    pub fn get(&self, key: &Key) -> Option<&Flow> {
        let (_, flow) = self.flows.get(*self.indexes.get(key)?)?.as_ref()?;
        Some(flow)
    }

    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Flow> {
        let index = self.find(key)?;
        self.at(index)
    }

    /// Adds a connection whose addresses no other one has. Returns its index.
    pub fn insert(&mut self, key: Key, flow: Flow) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() - 1
        });
        self.flows[index] = Some((key, flow));
        self.indexes.insert(key, index);
        self.recent[place(&key.0, &key.1)] = index;
        index
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

/// Where the connection between two addresses is remembered.
fn place(one: &SocketAddr, other: &SocketAddr) -> usize {
    usize::from(one.port() ^ other.port()) % RECENT_COUNT
}

/// Whether a connection has these addresses. Ports first: they differ more often.
fn is_same(Key(client, server): &Key, from: &SocketAddr, to: &SocketAddr) -> bool {
    client.port() == from.port() && client == from && server == to
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
        let found = table.get_mut(&key).map(|flow| flow.number());
        assert_eq!(table.get(&key).map(Flow::number), found);
        found
    }

    #[test]
    fn connections_with_the_same_place_are_told_apart() {
        let keys = ["10.0.0.1:4000", "10.0.0.2:4000", "10.0.0.1:5024", "[::1]:4000"].map(key);
        assert!(keys.iter().all(|key| place(&key.0, &key.1) == place(&keys[0].0, &keys[0].1)));
        let mut table = Table::new();
        assert_eq!(number(&mut table, keys[0]), None);
        for (it, of) in keys.into_iter().zip(1..) {
            add(&mut table, it, of);
        }
        for _ in 0..2 {
            for (it, of) in keys.into_iter().zip(1..) {
                assert_eq!(number(&mut table, it), Some(of));
                for other in keys {
                    let sides = [Side::Client, Side::Server];
                    let expected = sides.map(|side| (it == other).then_some((it, side)));
                    let Key(client, server) = other;
                    assert_eq!(table.recent(&client, &server), expected[0]);
                    assert_eq!(table.recent(&server, &client), expected[1]);
                }
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
        assert_eq!((number(&mut table, one), table.recent(&one.0, &one.1)), (None, None));
        add(&mut table, other, 2);
        assert_eq!((number(&mut table, one), number(&mut table, other)), (None, Some(2)));
        add(&mut table, one, 3);
        assert_eq!((number(&mut table, one), number(&mut table, other)), (Some(3), Some(2)));
        assert_eq!(table.flows.len(), 2);
    }
}
