//! Which connections a thread has, if several share the packets of an interface.
//!
//! Both directions of a connection are in the same share: only what is the same in both is hashed.
//! The hash has secret keys, because a client chooses its address and port.
//!
//! The kernel's filter of each ring has the same function ([`super::filter`]), so that a ring gets
//! its own packets only. A packet that the filter cannot parse reaches all rings, and is compared
//! here.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};

/// A share of all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub(super) index: u32,
    pub(super) count: u32,
    pub(super) keys: [u32; 3],
}

impl Share {
    /// All connections.
    pub const WHOLE: Share = Share { index: 0, count: 1, keys: [1; 3] };
    /// At most so many: the hash has 16 bits.
    pub const COUNT_MAX: u32 = 1 << 8;

    /// So many shares, which have all connections together.
    pub fn all(count: u32) -> Vec<Share> {
        let count = count.clamp(1, Share::COUNT_MAX);
        let random = RandomState::new();
        let keys = [0_u8, 1, 2].map(|which| {
            let mut hasher = random.build_hasher();
            hasher.write_u8(which);
            // Odd: a multiplication by it loses nothing.
            hasher.finish() as u32 | 1
        });
        (0..count).map(|index| Share { index, count, keys }).collect()
    }

    /// Whether it is all of them.
    pub fn is_whole(&self) -> bool {
        self.count == 1
    }

    /// Whether it has the connection between two addresses.
    pub fn has(&self, one: SocketAddr, other: SocketAddr) -> bool {
        self.is_whole() || self.place(one, other) == self.index as usize
    }

    /// The index of the share that has the connection between two addresses.
    pub fn place(&self, one: SocketAddr, other: SocketAddr) -> usize {
        let addresses = word(one.ip()) ^ word(other.ip());
        let ports = u32::from(one.port() ^ other.port());
        let [by_address, by_port, last] = self.keys;
        let mut hash = ports.wrapping_mul(by_port) ^ addresses.wrapping_mul(by_address);
        hash = (hash ^ (hash >> 15)).wrapping_mul(last) >> 16;
        ((hash * self.count) >> 16) as usize
    }
}

/// An address in 32 bits.
fn word(ip: IpAddr) -> u32 {
    match ip {
        IpAddr::V4(it) => it.to_bits(),
        IpAddr::V6(it) => {
            let bits = it.to_bits();
            (bits ^ (bits >> 32) ^ (bits >> 64) ^ (bits >> 96)) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn each_connection_is_in_one_share() {
        let shares = Share::all(3);
        for port in 1..=1000 {
            for (client, server) in [
                (format!("10.0.0.1:{port}"), "10.0.0.129:3306"),
                (format!("127.0.0.1:{port}"), "127.0.0.1:3306"),
                (format!("[2001:db8::{port}]:4000"), "[2001:db8::1]:3306"),
            ] {
                let (client, server) = (address(&client), address(server));
                let having = shares.iter().filter(|share| share.has(client, server)).count();
                assert_eq!(having, 1, "{client} {server}");
                let place = shares[0].place(client, server);
                assert!(shares[place].has(server, client), "{client} {server}");
            }
        }
        assert!(Share::WHOLE.has(address("10.0.0.1:1"), address("10.0.0.2:3306")));
        assert_eq!(Share::all(0).len(), 1);
    }

    /// Connections that differ only in their port are spread: that is what a load looks like.
    #[test]
    fn shares_are_of_similar_size() {
        let shares = Share::all(4);
        let server = address("192.0.2.1:3306");
        let mut counts = [0; 4];
        for port in 32_768..60_999 {
            let client = SocketAddr::new(address("192.0.2.7:1").ip(), port);
            counts[shares[0].place(client, server)] += 1;
        }
        let (fewest, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(fewest * 4 > *most, "{counts:?}");
    }
}
