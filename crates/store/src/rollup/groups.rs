//! The records of one minute or hour of one server, by their dimensions.

use std::collections::{HashMap, HashSet};

use tacho_histogram::bucket_of;

use super::SUMS;

/// What a row of a rollup has besides its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of records.
    pub count: u64,
    /// Those of [`SUMS`], in their order.
    pub sums: [u64; SUMS.len()],
    /// (bucket, statements), sorted by bucket.
    pub times: Vec<(u16, u64)>,
    /// The number of its connection key.
    connections: u32,
}

impl Sums {
    /// Adds a record. `false`: a sum would not fit, and nothing was added.
    fn add(&mut self, values: &[Option<u64>; SUMS.len()]) -> bool {
        let mut sums = self.sums;
        for (sum, value) in sums.iter_mut().zip(values) {
            match sum.checked_add(value.unwrap_or(0)) {
                Some(new) => *sum = new,
                None => return false,
            }
        }
        self.sums = sums;
        self.count += 1;
        if let Some(time_us) = values[0] {
            let bucket = bucket_of(time_us);
            match self.times.binary_search_by_key(&bucket, |&(bucket, _)| bucket) {
                Ok(at) => self.times[at].1 += 1,
                Err(at) => self.times.insert(at, (bucket, 1)),
            }
        }
        true
    }
}

/// A row: its key, its sums, and the connections if it is the first one of its connection key.
pub struct Row {
    /// The dimensions, as the writer has encoded them.
    pub key: Box<[u8]>,
    /// The sums.
    pub sums: Sums,
    /// Sorted; empty: they are on another row.
    pub connections: Vec<u64>,
}

/// Records by key. A key begins with a connection key.
#[derive(Default)]
pub struct Groups {
    groups: HashMap<Box<[u8]>, Sums>,
    /// Rows whose sums have no room for a further record.
    full: Vec<(Box<[u8]>, Sums)>,
    connection_keys: HashMap<Box<[u8]>, u32>,
    connections: HashSet<(u32, u64)>,
}

impl Groups {
    /// Adds a record. Its connection key is the first `prefix` bytes of its key.
    pub fn add(
        &mut self,
        key: &[u8],
        prefix: usize,
        values: &[Option<u64>; SUMS.len()],
        connection: Option<u64>,
    ) {
        let group = match self.groups.get_mut(key) {
            Some(group) => group,
            None => {
                let next = self.connection_keys.len() as u32;
                let connections = match self.connection_keys.get(&key[..prefix]) {
                    Some(&number) => number,
                    None => *self.connection_keys.entry(key[..prefix].into()).or_insert(next),
                };
                let sums = Sums { connections, ..Sums::default() };
                self.groups.entry(key.into()).or_insert(sums)
            }
        };
        if !group.add(values) {
            let connections = group.connections;
            let new = Sums { connections, ..Sums::default() };
            self.full.push((key.into(), std::mem::replace(group, new)));
            // Into empty sums every record fits.
            group.add(values);
        }
        if let Some(connection) = connection {
            self.connections.insert((group.connections, connection));
        }
    }

    /// About how much there is: keys and connections.
    pub fn len(&self) -> usize {
        self.groups.len() + self.full.len() + self.connections.len()
    }

    /// The rows, sorted by key; none are left.
    pub fn take(&mut self) -> Vec<Row> {
        let mut lists: Vec<Vec<u64>> = vec![Vec::new(); self.connection_keys.len()];
        for (number, connection) in self.connections.drain() {
            lists[number as usize].push(connection);
        }
        self.connection_keys.clear();
        let mut rows: Vec<(Box<[u8]>, Sums)> = self.groups.drain().collect();
        rows.append(&mut self.full);
        rows.sort_unstable_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.sums.cmp(&y.sums)));
        let with_connections = |(key, sums): (Box<[u8]>, Sums)| {
            let mut connections = std::mem::take(&mut lists[sums.connections as usize]);
            connections.sort_unstable();
            Row { key, sums, connections }
        };
        rows.into_iter().map(with_connections).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_do_not_fit_become_several_rows() {
        let mut groups = Groups::default();
        let large = [Some(u64::MAX), None, None, Some(1), None];
        for _ in 0..3 {
            groups.add(b"ab", 1, &large, Some(7));
        }
        groups.add(b"ac", 1, &[None; 5], Some(7));
        groups.add(b"ac", 1, &[Some(3), None, None, None, None], Some(5));
        assert_eq!(groups.len(), 2 + 2 + 2);
        let rows = groups.take();
        let sums = rows.iter().map(|row| (&*row.key, row.sums.count, row.sums.sums[0]));
        let wanted: [(&[u8], u64, u64); 4] =
            [(b"ab", 1, u64::MAX), (b"ab", 1, u64::MAX), (b"ab", 1, u64::MAX), (b"ac", 2, 3)];
        assert_eq!(sums.collect::<Vec<_>>(), wanted);
        let connections: Vec<_> = rows.iter().map(|row| &row.connections[..]).collect();
        assert_eq!(connections, [&[5, 7][..], &[], &[], &[]]);
        assert_eq!(rows[3].sums.times, [(3, 1)]);
        assert_eq!(groups.len(), 0);
    }
}
