//! Addresses, all of them as the 128 bits of IPv6: an IPv4 address is `::ffff:a.b.c.d` (RFC 4291,
//! section 2.5.5.2), which is also how a dual-stack socket shows it.
//!
//! The standard library's parser would suffice, but the compiler cannot prove that it does not
//! panic, and this one runs on query threads.

/// The first 96 bits of an IPv4 address.
const MAPPED: u128 = 0xffff << 32;

/// The address in `text`, in one of the forms of RFC 4291, section 2.2, without a zone. `None`: it
/// is not an address.
pub fn address(text: &[u8]) -> Option<u128> {
    if text.contains(&b':') { v6(text) } else { v4(text).map(|bits| MAPPED | u128::from(bits)) }
}

/// Four numbers of one to three decimal digits, without leading zeros (RFC 6943, 3.1.1).
fn v4(text: &[u8]) -> Option<u32> {
    let mut bits = 0u32;
    let mut count = 0u32;
    for part in text.split(|byte| *byte == b'.') {
        let number = part.iter().try_fold(0u32, |number, digit| {
            let digit = char::from(*digit).to_digit(10)?;
            Some(number.wrapping_mul(10).wrapping_add(digit)).filter(|number| *number < 256)
        })?;
        if part.is_empty() || (part.len() > 1 && part.first() == Some(&b'0')) {
            return None;
        }
        bits = bits.wrapping_shl(8) | number;
        count = count.wrapping_add(1);
    }
    (count == 4).then_some(bits)
}

/// Eight groups, or fewer with one `::` for those that are omitted.
fn v6(text: &[u8]) -> Option<u128> {
    let Some(gap) = text.windows(2).position(|pair| pair == b"::") else {
        let (bits, count) = groups(text, true)?;
        return (count == 8).then_some(bits);
    };
    let (high, before) = groups(text.get(..gap)?, false)?;
    let (low, behind) = groups(text.get(gap.wrapping_add(2)..)?, true)?;
    // `::` stands for one group or more.
    let left_out = 8u32.checked_sub(before.wrapping_add(behind)).filter(|count| *count > 0)?;
    let above = left_out.wrapping_add(behind).wrapping_mul(16);
    // A shift by all 128 bits: there is nothing before the gap.
    Some(high.checked_shl(above).unwrap_or(0) | low)
}

/// Groups of up to four hexadecimal digits, and an IPv4 address at the `end` instead of two: their
/// bits, and their number.
fn groups(text: &[u8], end: bool) -> Option<(u128, u32)> {
    if text.is_empty() {
        return Some((0, 0));
    }
    let mut bits = 0u128;
    let mut count = 0u32;
    let mut parts = text.split(|byte| *byte == b':').peekable();
    while let Some(part) = parts.next() {
        if part.contains(&b'.') && end && parts.peek().is_none() {
            bits = bits.wrapping_shl(32) | u128::from(v4(part)?);
            count = count.wrapping_add(2);
        } else {
            let group = part.iter().try_fold(0u128, |group, digit| {
                let digit = char::from(*digit).to_digit(16)?;
                Some(group.wrapping_mul(16).wrapping_add(u128::from(digit)))
            })?;
            if part.is_empty() || part.len() > 4 {
                return None;
            }
            bits = bits.wrapping_shl(16) | group;
            count = count.wrapping_add(1);
        }
        if count > 8 {
            return None;
        }
    }
    Some((bits, count))
}

/// Whether the first `bits` bits of both addresses are the same.
pub fn same_prefix(one: u128, other: u128, bits: u8) -> bool {
    let rest = u32::from(128u8.saturating_sub(bits));
    // A shift by all 128 bits leaves nothing that could differ.
    (one ^ other).checked_shr(rest).unwrap_or(0) == 0
}

/// An address and the number of its significant bits, from `10.0.0.0/8`, `fe80::/10` or a single
/// address.
#[cfg(feature = "compile")]
pub fn prefix(text: &str) -> Option<(u128, u8)> {
    let (ip, bits) = match text.split_once('/') {
        Some((ip, bits)) => (ip, Some(bits)),
        None => (text, None),
    };
    let is_v4 = !ip.contains(':');
    let address = address(ip.as_bytes())?;
    let longest = if is_v4 { 32 } else { 128 };
    let bits = match bits {
        Some(bits) if bits.starts_with('+') => return None,
        Some(bits) => bits.parse::<u8>().ok().filter(|bits| *bits <= longest)?,
        None => longest,
    };
    Some((address, if is_v4 { bits.saturating_add(96) } else { bits }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inside(network: &str, ip: &str) -> bool {
        let (wanted, bits) = prefix(network).expect(network);
        same_prefix(wanted, address(ip.as_bytes()).expect(ip), bits)
    }

    #[test]
    fn prefixes() {
        assert!(inside("10.0.0.0/8", "10.255.1.2"));
        assert!(!inside("10.0.0.0/8", "11.0.0.1"));
        assert!(inside("10.0.0.0/8", "::ffff:10.1.2.3"), "as a dual-stack socket shows it");
        assert!(inside("0.0.0.0/0", "192.0.2.1"));
        assert!(!inside("0.0.0.0/0", "2001:db8::1"), "all of IPv4 is not all");
        assert!(inside("::/0", "192.0.2.1"));
        assert!(inside("192.0.2.7", "192.0.2.7"));
        assert!(!inside("192.0.2.7", "192.0.2.6"));
        assert!(inside("fe80::/10", "febf::1"));
        assert!(!inside("fe80::/10", "fec0::1"));
    }

    /// As the standard library reads it.
    fn expected(text: &str) -> Option<u128> {
        text.parse::<core::net::IpAddr>().ok().map(|address| match address {
            core::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            core::net::IpAddr::V6(v6) => v6.to_bits(),
        })
    }

    #[test]
    fn edges() {
        for text in [
            "::",
            "::1",
            "1::",
            ":1::",
            "1:::",
            ":::",
            "::1::",
            "1::2::3",
            "1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "1:2:3:4::5:6:7:8",
            "1:2:3:4:5:6:7:8:9",
            "1:2:3:4:5:6:7",
            "::ffff:10.1.2.3",
            "1:2:3:4:5:6:1.2.3.4",
            "1:2:3:4:5:6:7:1.2.3.4",
            "::1.2.3.4:1",
            ":",
            "",
            "1:",
            ":1",
            "12345::",
            "g::",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "256.1.1.1",
            "1..2.3",
            "0.0.0.0",
            "::00001",
            "fe80::1%eth0",
            "ABCD::ef",
        ] {
            assert_eq!(address(text.as_bytes()), expected(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn as_the_standard_library(text in "[0-9a-f:.]{0,20}|([0-9a-f]{0,4}:){0,9}[0-9a-f.]{0,8}") {
            prop_assert_eq!(address(text.as_bytes()), expected(&text));
        }

        #[test]
        fn every_address(bits: u128) {
            let text = core::net::Ipv6Addr::from_bits(bits).to_string();
            prop_assert_eq!(address(text.as_bytes()), Some(bits));
        }

        #[test]
        fn any_bytes(text: Vec<u8>) {
            address(&text);
        }
    }

    #[test]
    fn texts_that_are_not_addresses() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/+8", "host"] {
            assert_eq!(prefix(text), None, "{text}");
        }
        assert_eq!(address(b"10.0.0.1\xff"), None);
    }
}
