//! The connections that have state.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::conn::Conn;

/// Connection ids are the server's own: the hash must spread them, not resist attacks.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// Connections by id. The last one that was accessed is found without a search: a chunk of the
/// arena belongs to one thread, so the next record mostly has the same connection.
#[derive(Default)]
pub(super) struct Conns {
    /// Unordered and dense.
    all: Vec<(u64, Conn)>,
    places: HashMap<u64, usize, BuildHasherDefault<IdHasher>>,
    /// Index of the last one that was accessed, if it still exists.
    last: usize,
}

impl Conns {
    /// The connection, created if it is new.
    #[inline]
    pub(super) fn entry(&mut self, id: u64) -> &mut Conn {
        if self.all.get(self.last).is_none_or(|(last, _)| *last != id) {
            self.last = self.find_or_insert(id);
        }
        &mut self.all[self.last].1
    }

    #[inline(never)]
    fn find_or_insert(&mut self, id: u64) -> usize {
        let Conns { all, places, .. } = self;
        *places.entry(id).or_insert_with(|| {
            all.push((id, Conn::default()));
            all.len() - 1
        })
    }

    pub(super) fn get(&self, id: u64) -> Option<&Conn> {
        self.places.get(&id).map(|place| &self.all[*place].1)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Conn> {
        self.places.get(&id).map(|place| &mut self.all[*place].1)
    }

    pub(super) fn remove(&mut self, id: u64) {
        let Some(place) = self.places.remove(&id) else { return };
        self.all.swap_remove(place);
        if let Some((moved, _)) = self.all.get(place) {
            self.places.insert(*moved, place);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Conn)> {
        self.all.iter().map(|(id, conn)| (*id, conn))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Conn)> {
        self.all.iter_mut().map(|(id, conn)| (*id, conn))
    }

    /// Removes and returns all of them.
    pub(super) fn take(&mut self) -> Vec<(u64, Conn)> {
        std::mem::take(self).all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Each step accesses or removes a connection; with few ids, so that most are repeated.
        #[test]
        fn each_connection_is_found_until_it_is_removed(
            steps in prop::collection::vec((0..8_u64, any::<bool>()), 0..100),
        ) {
            let mut conns = Conns::default();
            let mut expected = BTreeMap::new();
            for ((id, is_kept), number) in steps.into_iter().zip(1..) {
                let known = expected.get(&id).copied();
                prop_assert_eq!(conns.get(id).map(|conn| conn.last_query_id), known);
                if is_kept {
                    let conn = conns.entry(id);
                    prop_assert_eq!(conn.last_query_id, known.unwrap_or(0));
                    conn.last_query_id = number;
                    expected.insert(id, number);
                } else {
                    conns.remove(id);
                    expected.remove(&id);
                }
                prop_assert_eq!(conns.len(), expected.len());
                let all: BTreeMap<u64, u64> =
                    conns.iter().map(|(id, conn)| (id, conn.last_query_id)).collect();
                prop_assert_eq!(&all, &expected);
            }
        }
    }
}
