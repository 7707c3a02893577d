//! A piece of plaintext, as the programs in the kernel write it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes before those of the piece: `struct head` of `tls.bpf.c`.
const HEAD_BYTES: usize = 72;
/// The kernel's number of IPv4.
const IPV4: u8 = 2;

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server has read it.
    FromClient,
    /// The server has written it.
    ToClient,
    /// The server has ended the session. It has no bytes.
    End,
}

/// A part of what an encrypted connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'p> {
    /// When the server had read or written it, ns of the monotonic clock.
    pub at_ns: u64,
    /// The server's TLS session: no other one of the process ever has this number.
    pub stream: u64,
    /// Bytes of the session in this direction before it, since it was first seen.
    pub offset: u64,
    /// What it is.
    pub kind: Kind,
    /// The other end of the server's connection.
    pub client: SocketAddr,
    /// The server's end.
    pub server: SocketAddr,
    /// The bytes.
    pub bytes: &'p [u8],
}

impl<'p> Piece<'p> {
    /// Reads an item of the ring. `None`: it is not one of ours.
    pub fn read(item: &'p [u8]) -> Option<Piece<'p>> {
        let (head, rest) = item.split_first_chunk::<HEAD_BYTES>()?;
        let [at_ns, stream, offset] = [0, 8, 16].map(|at| u64_at(head, at));
        let bytes = u32::from_ne_bytes([head[24], head[25], head[26], head[27]]) as usize;
        let kind = match head[28] {
            0 => Kind::FromClient,
            1 => Kind::ToClient,
            2 => Kind::End,
            _ => return None,
        };
        let port = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let ip = |at: usize| ip(head[29], &head[at..at + 16]);
        Some(Piece {
            at_ns,
            stream,
            offset,
            kind,
            client: SocketAddr::new(ip(40)?, port(30)),
            server: SocketAddr::new(ip(56)?, port(32)),
            bytes: rest.get(..bytes)?,
        })
    }
}

fn u64_at(head: &[u8; HEAD_BYTES], at: usize) -> u64 {
    head[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// An address; one of IPv4 that a socket of IPv6 has is one of IPv4.
fn ip(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    if family == IPV4 {
        return bytes.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes).into());
    }
    let six = bytes.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes));
    six.map(|six| IpAddr::from(six).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(family: u8, kind: u8) -> Vec<u8> {
        let mut item = Vec::new();
        for number in [7_u64, 8, 9] {
            item.extend(number.to_ne_bytes());
        }
        item.extend(3_u32.to_ne_bytes());
        item.extend([kind, family]);
        item.extend(5555_u16.to_be_bytes());
        item.extend(3306_u16.to_be_bytes());
        item.extend([0; 6]);
        for end in [1, 2] {
            let mut address = [0; 16];
            if family == IPV4 {
                address[..4].copy_from_slice(&[10, 0, 0, end]);
            } else {
                address[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, end]);
            }
            item.extend(address);
        }
        item.extend(b"abc and what was there before");
        item
    }

    #[test]
    fn pieces_of_both_families_are_read() {
        for family in [IPV4, 10] {
            let item = item(family, 1);
            let piece = Piece::read(&item).expect("a piece");
            assert_eq!((piece.at_ns, piece.stream, piece.offset), (7, 8, 9));
            assert_eq!((piece.kind, piece.bytes), (Kind::ToClient, &b"abc"[..]));
            assert_eq!(piece.client.to_string(), "10.0.0.1:5555");
            assert_eq!(piece.server.to_string(), "10.0.0.2:3306");
        }
    }

    #[test]
    fn what_is_not_a_piece_is_none() {
        assert_eq!(Piece::read(&item(IPV4, 3)), None);
        let whole = item(IPV4, 0);
        for end in 0..HEAD_BYTES + 3 {
            assert_eq!(Piece::read(&whole[..end]), None, "{end}");
        }
    }
}
