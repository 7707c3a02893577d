//! The PROXY protocol: a load balancer says, before everything else, for whom it connects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header of version 1.
const TEXT_BYTES_MAX: usize = 107;
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const HEAD_BYTES: usize = 16;

/// What the first bytes of a client are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxied {
    /// The beginning of a header.
    Incomplete,
    /// A header of so many bytes. `None`: it names no address.
    Header(usize, Option<SocketAddr>),
    /// Something else.
    Nothing,
}

/// Looks for a header.
pub fn read(bytes: &[u8]) -> Proxied {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(a, b)| a == b);
    if begins(SIGNATURE) { binary(bytes) } else { text(bytes) }
}

fn text(bytes: &[u8]) -> Proxied {
    const WORD: &[u8] = b"PROXY ";
    if !bytes.iter().zip(WORD).all(|(a, b)| a == b) {
        return Proxied::Nothing;
    }
    let line = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    let Some(end) = line.windows(2).position(|end| end == b"\r\n") else {
        return if bytes.len() < TEXT_BYTES_MAX { Proxied::Incomplete } else { Proxied::Nothing };
    };
    let words = std::str::from_utf8(&line[..end]).unwrap_or_default();
    let words = words.split(' ').collect::<Vec<_>>();
    let address = match words[..] {
        ["PROXY", "TCP4" | "TCP6", from, _, port, _] => {
            from.parse::<IpAddr>().ok().zip(port.parse().ok())
        }
        ["PROXY", "UNKNOWN", ..] => None,
        _ => return Proxied::Nothing,
    };
    Proxied::Header(end + 2, address.map(SocketAddr::from))
}

fn binary(bytes: &[u8]) -> Proxied {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Proxied::Incomplete;
    };
    let [.., version, family, high, low] = *head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if version >> 4 != 2 {
        return Proxied::Nothing;
    }
    let Some(addresses) = rest.get(..length) else { return Proxied::Incomplete };
    let port = |at: usize| {
        let port = addresses.get(at..at + 2)?;
        Some(u16::from_be_bytes([port[0], port[1]]))
    };
    // 0: the proxy's own connection.
    let address = match (version & 0xf, family) {
        (1, 0x11) => addresses.first_chunk::<4>().map(|ip| Ipv4Addr::from(*ip).into()).zip(port(8)),
        (1, 0x21) => {
            addresses.first_chunk::<16>().map(|ip| Ipv6Addr::from(*ip).into()).zip(port(32))
        }
        _ => None,
    };
    let address = address.map(|(ip, port): (IpAddr, u16)| SocketAddr::new(ip, port));
    Proxied::Header(HEAD_BYTES + length, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_name_the_client() {
        let text = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 3306\r\nmore";
        let client: SocketAddr = "192.0.2.7:4711".parse().unwrap();
        assert_eq!(read(text), Proxied::Header(text.len() - 4, Some(client)));
        let mut binary = SIGNATURE.to_vec();
        binary.extend([0x21, 0x11, 0, 12, 192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0xc, 0xea]);
        assert_eq!(read(&binary), Proxied::Header(28, Some(client)));
        for header in [&text[..text.len() - 4], &binary] {
            for end in 0..header.len() {
                assert_eq!(read(&header[..end]), Proxied::Incomplete, "{end}");
            }
        }
        assert_eq!(read(b"PROXY UNKNOWN\r\n"), Proxied::Header(15, None));
        let six = b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n";
        let client = "[2001:db8::1]:1".parse().unwrap();
        assert_eq!(read(six), Proxied::Header(six.len(), Some(client)));
    }

    #[test]
    fn anything_else_is_none() {
        for other in [&b"\x20\0\0\x01"[..], b"PROXIES", &[b'P'; 200], b"PROXY TCP4 x\r\n"] {
            assert_eq!(read(other), Proxied::Nothing);
        }
        let endless = [b"PROXY TCP4 ", &[b'1'; 200][..]].concat();
        assert_eq!(read(&endless), Proxied::Nothing);
    }
}
