//! From a captured frame to a TCP segment.
//!
//! The receiver discards a segment with a wrong checksum, so what it says was not sent. But on the
//! sending host the network card fills checksums in after the capture. So they are verified only if
//! the source says that they must be right.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    EtherType, IpNumber, Ipv4HeaderSlice, Ipv6HeaderSlice, LaxNetSlice, LaxSlicedPacket, TcpSlice,
    TransportSlice,
};

/// The kind of frames of a file or an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Ethernet, also with VLAN tags.
    Ethernet,
    /// BSD loopback: four bytes with the address family, in either byte order.
    Loopback,
    /// An IP packet without anything before it.
    Raw,
    /// Linux "cooked" capture, as of the interface `any`.
    Cooked,
    /// Its version 2.
    Cooked2,
    /// A packet of this `EtherType`, as the kernel says, without anything before it. For VLAN tags
    /// see [`of_packet`].
    Packet(u16),
}

/// Address families of IPv6 in BSD loopback frames, by system.
const LOOPBACK_IPV6: [u32; 4] = [10, 24, 28, 30];

impl Link {
    /// From the number in a packet file (`LINKTYPE_`…). `None`: not supported.
    pub fn of_number(number: u32) -> Option<Link> {
        Some(match number {
            1 => Link::Ethernet,
            0 | 108 => Link::Loopback,
            12 | 14 | 101 | 228 | 229 => Link::Raw,
            113 => Link::Cooked,
            276 => Link::Cooked2,
            _ => return None,
        })
    }

    fn slice(self, frame: &[u8]) -> Option<LaxSlicedPacket<'_>> {
        let u16_at = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        match self {
            Link::Ethernet => LaxSlicedPacket::from_ethernet(frame).ok(),
            Link::Raw => LaxSlicedPacket::from_ip(frame).ok(),
            Link::Packet(protocol) => Some(of_packet(EtherType(protocol), frame)),
            Link::Loopback => {
                let (family, packet) = frame.split_first_chunk::<4>()?;
                let (little, big) = (u32::from_le_bytes(*family), u32::from_be_bytes(*family));
                let is_ip = |family: u32| family == 2 || LOOPBACK_IPV6.contains(&family);
                (is_ip(little) || is_ip(big)).then(|| LaxSlicedPacket::from_ip(packet).ok())?
            }
            Link::Cooked => {
                let protocol = EtherType(u16_at(14)?);
                Some(LaxSlicedPacket::from_ether_type(protocol, frame.get(16..)?))
            }
            Link::Cooked2 => {
                let protocol = EtherType(u16_at(0)?);
                Some(LaxSlicedPacket::from_ether_type(protocol, frame.get(20..)?))
            }
        }
    }
}

/// Slices a packet as of a socket of the kind `SOCK_DGRAM`.
///
/// If a VLAN tag is in the packet, as the second one is, and others if the network card does not
/// handle them, Linux may name the type of what is behind the tags although the packet begins with
/// one (from 6.11 on, `vlan_get_protocol_dgram` in `include/linux/if_vlan.h`); or that of a tag
/// although the packet begins behind it (before, if this host sends it).
fn of_packet(protocol: EtherType, frame: &[u8]) -> LaxSlicedPacket<'_> {
    const VLANS: [EtherType; 2] = [EtherType::VLAN_TAGGED_FRAME, EtherType::PROVIDER_BRIDGING];
    let named = LaxSlicedPacket::from_ether_type(protocol, frame);
    if named.transport.is_some() {
        return named;
    }
    let other = match frame.first().map(|first| first >> 4) {
        _ if !VLANS.contains(&protocol) => EtherType::VLAN_TAGGED_FRAME,
        Some(4) => EtherType::IPV4,
        Some(6) => EtherType::IPV6,
        _ => return named,
    };
    let other = LaxSlicedPacket::from_ether_type(other, frame);
    if other.transport.is_some() { other } else { named }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// When it was captured, µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// Its sender.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
    /// Sequence number of its first byte.
    pub seq: u32,
    /// The next byte that its sender expects.
    pub ack: Option<u32>,
    /// It opens the connection.
    pub syn: bool,
    /// Its sender sends nothing after it.
    pub fin: bool,
    /// It ends the connection.
    pub rst: bool,
    /// Its captured bytes.
    pub payload: &'a [u8],
    /// How many more bytes it had that were not captured.
    pub missing: u32,
}

impl<'a> Segment<'a> {
    #[inline]
    fn of(
        ts_us: i64,
        [from, to]: [IpAddr; 2],
        tcp: &TcpSlice<'a>,
        payload: &'a [u8],
        missing: u32,
    ) -> Segment<'a> {
        Segment {
            ts_us,
            from: SocketAddr::new(from, tcp.source_port()),
            to: SocketAddr::new(to, tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            syn: tcp.syn(),
            fin: tcp.fin(),
            rst: tcp.rst(),
            payload,
            missing,
        }
    }
}

/// Whether a frame has a TCP segment whose checksum is wrong. A frame that was cut has none to
/// verify.
pub fn has_wrong_checksum(link: Link, frame: &[u8]) -> bool {
    let Some(packet) = link.slice(frame) else { return false };
    let (Some(net), Some(TransportSlice::Tcp(tcp))) = (&packet.net, &packet.transport) else {
        return false;
    };
    let sum = match net {
        LaxNetSlice::Ipv4(ip) if !ip.payload().incomplete => {
            let header = ip.header();
            tcp.calc_checksum_ipv4(header.source(), header.destination())
        }
        LaxNetSlice::Ipv6(ip) if !ip.payload().incomplete => {
            let header = ip.header();
            tcp.calc_checksum_ipv6(header.source(), header.destination())
        }
        _ => return false,
    };
    sum.is_ok_and(|sum| sum != tcp.checksum())
}

/// Reads the TCP segment of a frame that had `frame_bytes`, of which `frame` was captured. `None`:
/// it has none, its headers are not complete, or its IP packet is longer than the frame: then the
/// receiver discards it.
pub fn segment(link: Link, frame: &[u8], frame_bytes: usize, ts_us: i64) -> Option<Segment<'_>> {
    let usual = usual(link, frame, frame_bytes, ts_us);
    if usual.is_some() { usual } else { any(link, frame, frame_bytes, ts_us) }
}

/// The segment of a whole IP packet with TCP directly behind its header, in a frame without tags:
/// almost every frame is of this kind, and [`any`] takes three times as long for it. `None`: it
/// is of another kind. Otherwise the result is that of [`any`].
#[inline]
fn usual(link: Link, frame: &[u8], frame_bytes: usize, ts_us: i64) -> Option<Segment<'_>> {
    if frame.len() > frame_bytes {
        return None;
    }
    let (kind, packet) = match link {
        Link::Ethernet => {
            (EtherType(u16::from_be_bytes(*frame.get(12..)?.first_chunk()?)), frame.get(14..)?)
        }
        Link::Packet(kind) => (EtherType(kind), frame),
        _ => return None,
    };
    let (from, to, protocol, tcp_at, packet_bytes) = match kind {
        EtherType::IPV4 => {
            let ip = Ipv4HeaderSlice::from_slice(packet)
                .ok()
                .filter(|ip| !ip.is_fragmenting_payload())?;
            let (from, to) = (ip.source_addr().into(), ip.destination_addr().into());
            (from, to, ip.protocol(), ip.slice().len(), usize::from(ip.total_len()))
        }
        EtherType::IPV6 => {
            let ip =
                Ipv6HeaderSlice::from_slice(packet).ok().filter(|ip| ip.payload_length() > 0)?;
            let (from, to) = (ip.source_addr().into(), ip.destination_addr().into());
            let head_bytes = ip.slice().len();
            (from, to, ip.next_header(), head_bytes, head_bytes + usize::from(ip.payload_length()))
        }
        _ => return None,
    };
    if protocol != IpNumber::TCP {
        return None;
    }
    let tcp = TcpSlice::from_slice(packet.get(tcp_at..packet_bytes)?).ok()?;
    Some(Segment::of(ts_us, [from, to], &tcp, tcp.payload(), 0))
}

/// The segment of any frame.
fn any(link: Link, frame: &[u8], frame_bytes: usize, ts_us: i64) -> Option<Segment<'_>> {
    let packet = link.slice(frame)?;
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return None };
    let payload = tcp.payload();
    let (from, to, ip_at, ip_bytes) = match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let (from, to) = (header.source_addr(), header.destination_addr());
            (IpAddr::V4(from), IpAddr::V4(to), header.slice().as_ptr(), header.total_len().into())
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let (from, to) = (header.source_addr(), header.destination_addr());
            let bytes = usize::from(header.payload_length());
            // 0: a packet of more than 64 KiB.
            let bytes = if bytes == 0 { 0 } else { bytes + header.slice().len() };
            (IpAddr::V6(from), IpAddr::V6(to), header.slice().as_ptr(), bytes)
        }
        LaxNetSlice::Arp(_) => return None,
    };
    // Both are in `frame`.
    let ip_at = ip_at.addr().checked_sub(frame.as_ptr().addr())?;
    let payload_at = payload.as_ptr().addr().checked_sub(frame.as_ptr().addr())?;
    // A packet that the network card is to split may have no length of its own.
    let ip_bytes = if ip_bytes == 0 { frame_bytes.checked_sub(ip_at)? } else { ip_bytes };
    if ip_at + ip_bytes > frame_bytes {
        return None;
    }
    let sent = ip_bytes.checked_sub(payload_at.checked_sub(ip_at)?)?;
    let payload = payload.get(..sent).unwrap_or(payload);
    let missing = u32::try_from(sent - payload.len()).ok()?;
    Some(Segment::of(ts_us, [from, to], tcp, payload, missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(5555, 3306, 1000, 512)
            .ack(77);
        let mut frame = Vec::new();
        builder.write(&mut frame, payload).unwrap();
        frame
    }

    #[test]
    fn a_segment_is_found_behind_every_link_header() {
        let ethernet = frame(b"hello");
        let ip = &ethernet[14..];
        let vlan = [&ethernet[..12], &[0x81, 0, 0, 7], &ethernet[12..]].concat();
        let cooked = [&[0; 14][..], &[8, 0], ip].concat();
        let cooked2 = [&[8, 0][..], &[0; 18], ip].concat();
        for (link, frame) in [
            (Link::Ethernet, ethernet.clone()),
            (Link::Ethernet, vlan),
            (Link::Raw, ip.to_vec()),
            (Link::Cooked, cooked),
            (Link::Cooked2, cooked2),
            (Link::Packet(0x0800), ip.to_vec()),
            (Link::Packet(0x8100), [&[0, 7, 8, 0], ip].concat()),
            (Link::Packet(0x0800), [&[0, 7, 8, 0], ip].concat()),
            (Link::Packet(0x0800), [&[0x45, 7, 8, 0], ip].concat()),
            (Link::Packet(0x0800), [&[0, 7, 0x81, 0, 0, 9, 8, 0], ip].concat()),
            (Link::Packet(0x8100), ip.to_vec()),
            (Link::Packet(0x88a8), ip.to_vec()),
            (Link::Loopback, [&[2, 0, 0, 0], ip].concat()),
            (Link::Loopback, [&[0, 0, 0, 2], ip].concat()),
        ] {
            let found = segment(link, &frame, frame.len(), 9).expect("a segment");
            assert_eq!((found.payload, found.missing), (&b"hello"[..], 0), "{link:?}");
            assert_eq!((found.seq, found.ack), (1000, Some(77)), "{link:?}");
            assert_eq!(found.from.to_string(), "10.0.0.1:5555");
            assert_eq!(found.to.to_string(), "10.0.0.2:3306");
        }
    }

    #[test]
    fn what_was_cut_off_is_counted_and_padding_is_not() {
        let whole = frame(b"hello world");
        let cut = segment(Link::Ethernet, &whole[..whole.len() - 4], whole.len(), 0).unwrap();
        assert_eq!((cut.payload, cut.missing), (&b"hello w"[..], 4));
        let padded = [&frame(b"")[..], &[0; 6]].concat();
        let empty = segment(Link::Ethernet, &padded, padded.len(), 0).unwrap();
        assert_eq!((empty.payload, empty.missing), (&b""[..], 0));
    }

    #[test]
    fn a_packet_that_says_it_is_longer_than_its_frame_is_none() {
        let mut long = frame(b"DELETE FROM t");
        long[17] += 1;
        assert_eq!(segment(Link::Ethernet, &long, long.len(), 0), None);
        assert!(segment(Link::Ethernet, &long, long.len() + 1, 0).is_some(), "it was cut");
    }

    #[test]
    fn a_wrong_checksum_is_found() {
        let right = frame(b"SELECT 1");
        assert!(!has_wrong_checksum(Link::Ethernet, &right));
        let padded = [&right[..], &[0xff; 3]].concat();
        assert!(!has_wrong_checksum(Link::Ethernet, &padded), "padding does not count");
        for at in [14 + 20 + 4, 14 + 20 + 16, right.len() - 1] {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            assert!(has_wrong_checksum(Link::Ethernet, &wrong), "{at}");
        }
        assert!(!has_wrong_checksum(Link::Ethernet, &right[..right.len() - 1]), "it was cut");
        let mut six = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 9).tcp(1, 3306, 1, 1);
        builder.write(&mut six, b"x").unwrap();
        assert!(!has_wrong_checksum(Link::Raw, &six));
        *six.last_mut().unwrap() = b'y';
        assert!(has_wrong_checksum(Link::Raw, &six));
    }

    /// Frames of both kinds, with each of their bits changed.
    #[test]
    fn the_short_way_finds_what_the_long_one_finds() {
        let ethernet = frame(b"SELECT 1");
        let options = [[0x46].as_slice(), &ethernet[15..34], &[1; 4], &ethernet[34..]].concat();
        let mut six = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 9).tcp(1, 3306, 1, 1);
        builder.write(&mut six, b"x").unwrap();
        let six_frame = [&ethernet[..12], &[0x86, 0xdd], &six].concat();
        let padded = [&ethernet[..], &[0; 9]].concat();
        let (mut usual_count, mut other_count) = (0, 0);
        for (link, frame) in [
            (Link::Ethernet, &ethernet),
            (Link::Ethernet, &padded),
            (Link::Ethernet, &six_frame),
            (Link::Packet(0x0800), &ethernet[14..].to_vec()),
            (Link::Packet(0x0800), &options),
            (Link::Packet(0x86dd), &six),
            (Link::Packet(0x8100), &six),
            (Link::Raw, &six),
        ] {
            for (at, bit) in (0..frame.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut changed = frame.clone();
                changed[at] ^= 1 << bit;
                for frame in [&changed[..], &changed[..changed.len() - 1], &changed[..at]] {
                    for frame_bytes in [changed.len(), frame.len(), at] {
                        let found = any(link, frame, frame_bytes, 7);
                        match usual(link, frame, frame_bytes, 7) {
                            None => other_count += 1,
                            Some(it) => {
                                assert_eq!(Some(it), found, "{link:?} {frame:?}");
                                usual_count += 1;
                            }
                        }
                    }
                }
            }
        }
        assert!(usual_count > 1000 && other_count > 1000, "{usual_count} {other_count}");
    }

    #[test]
    fn arbitrary_bytes_do_no_harm() {
        let whole = frame(b"hello world");
        for link in [Link::Ethernet, Link::Raw, Link::Cooked, Link::Cooked2, Link::Loopback] {
            for end in 0..whole.len() {
                for from in 0..end {
                    // Whatever it is: no panic.
                    let _ = segment(link, &whole[from..end], end, 0);
                    let _ = has_wrong_checksum(link, &whole[from..end]);
                }
            }
        }
    }
}
