//! The filter in the kernel: TCP packets from or to the servers' ports, of one share of the
//! connections.
//!
//! The servers' addresses are compared later: a filter with them would be no faster.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::sock_filter;

use super::share::Share;

/// Where a load finds the `EtherType` (`SKF_AD_OFF + SKF_AD_PROTOCOL`).
const PROTOCOL: u32 = 0xffff_f000;
/// All of a packet.
const ACCEPT: u32 = 0x4_0000;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
/// Tags that the network card has left in the packet: too rare to be parsed here.
const VLANS: [u32; 2] = [0x8100, 0x88a8];
const TCP: u32 = 6;
/// Ports of one filter: the kernel takes at most 4096 steps.
pub const PORTS_MAX: usize = 256;

const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_HALF_BEHIND: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LOAD_HEADER: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const LOAD_X: u16 = (libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM) as u16;
const LOAD_A: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_IMM) as u16;
/// Stores A in a place of the memory of the program, and loads X from there.
const STORE: u16 = libc::BPF_ST as u16;
const LOAD_X_STORED: u16 = (libc::BPF_LDX | libc::BPF_W | libc::BPF_MEM) as u16;
const A_TO_X: u16 = (libc::BPF_MISC | libc::BPF_TAX) as u16;
const XOR_X: u16 = (libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X) as u16;
const MULTIPLY: u16 = (libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K) as u16;
const SHIFT_RIGHT: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// If the value is equal, the next step, otherwise that after `otherwise` more.
fn only(code: u16, k: u32, otherwise: u8) -> sock_filter {
    sock_filter { code, jt: 0, jf: otherwise, k }
}

/// If the value is equal, the step after the next one, otherwise the next one.
fn unless(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 1, jf: 0, k }
}

/// Accepts the ports of a TCP header behind X bytes, and nothing else. No ports are all of them.
/// `accept` is what follows.
fn of_ports(ports: &[u16], accept: Vec<sock_filter>) -> Vec<sock_filter> {
    if ports.is_empty() {
        return accept;
    }
    // For each place a load, and two steps for each port; then the refusal.
    let count = 2 * (1 + 2 * ports.len()) + 1;
    let mut steps = Vec::new();
    for offset in [0, 2] {
        steps.push(step(LOAD_HALF_BEHIND, offset));
        for port in ports {
            steps.push(only(IF_EQUAL, u32::from(*port), 1));
            steps.push(step(JUMP, (count - steps.len() - 1) as u32));
        }
    }
    steps.push(step(RETURN, 0));
    steps.extend(accept);
    steps
}

/// Accepts what is of this share, of a TCP header behind X bytes; `words` are the places of the
/// words of both addresses. It is the function [`Share::place`].
fn of_share<const N: usize>(share: &Share, words: [u32; N]) -> Vec<sock_filter> {
    if share.is_whole() {
        return vec![step(RETURN, ACCEPT)];
    }
    let [by_address, by_port, last] = share.keys;
    // While X is where the header begins.
    let mut steps = vec![
        step(LOAD_HALF_BEHIND, 0),
        step(STORE, 0),
        step(LOAD_HALF_BEHIND, 2),
        step(LOAD_X_STORED, 0),
        step(XOR_X, 0),
        step(MULTIPLY, by_port),
        step(STORE, 0),
        step(LOAD_A, 0),
    ];
    for word in words {
        steps.extend([step(A_TO_X, 0), step(LOAD_WORD, word), step(XOR_X, 0)]);
    }
    steps.extend([
        step(MULTIPLY, by_address),
        step(LOAD_X_STORED, 0),
        step(XOR_X, 0),
        step(A_TO_X, 0),
        step(SHIFT_RIGHT, 15),
        step(XOR_X, 0),
        step(MULTIPLY, last),
        step(SHIFT_RIGHT, 16),
        step(MULTIPLY, share.count),
        step(SHIFT_RIGHT, 16),
        unless(IF_EQUAL, share.index),
        step(RETURN, 0),
        step(RETURN, ACCEPT),
    ]);
    steps
}

/// TCP over IPv4, the first fragment.
fn of_ipv4(ports: &[u16], share: &Share) -> Vec<sock_filter> {
    let mut steps = vec![
        step(LOAD_BYTE, 9),
        unless(IF_EQUAL, TCP),
        step(RETURN, 0),
        step(LOAD_HALF, 6),
        only(IF_SET, 0x1fff, 1),
        step(RETURN, 0),
        step(LOAD_HEADER, 0),
    ];
    steps.extend(of_ports(ports, of_share(share, [12, 16])));
    steps
}

/// TCP over IPv6, without other headers between.
fn of_ipv6(ports: &[u16], share: &Share) -> Vec<sock_filter> {
    let mut steps =
        vec![step(LOAD_BYTE, 6), unless(IF_EQUAL, TCP), step(RETURN, 0), step(LOAD_X, 40)];
    let words = [8, 12, 16, 20, 24, 28, 32, 36];
    steps.extend(of_ports(ports, of_share(share, words)));
    steps
}

/// The program. Packets begin with the network header.
fn program(ports: &[u16], share: &Share) -> Vec<sock_filter> {
    let mut steps = vec![step(LOAD_HALF, PROTOCOL)];
    for vlan in VLANS {
        steps.push(only(IF_EQUAL, vlan, 1));
        steps.push(step(RETURN, ACCEPT));
    }
    let ipv4 = of_ipv4(ports, share);
    steps.push(only(IF_EQUAL, IPV6, 1));
    // Over the next two steps, and over those of IPv4.
    steps.push(step(JUMP, 2 + ipv4.len() as u32));
    steps.push(unless(IF_EQUAL, IPV4));
    steps.push(step(RETURN, 0));
    steps.extend(ipv4);
    steps.extend(of_ipv6(ports, share));
    steps
}

/// Attaches it to a socket.
///
/// # Errors
/// The kernel refuses it.
pub fn attach(socket: &OwnedFd, ports: &[u16], share: &Share) -> io::Result<()> {
    let mut steps = program(ports, share);
    let count = u16::try_from(steps.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: count, filter: steps.as_mut_ptr() };
    let bytes = size_of_val(&program) as libc::socklen_t;
    // SAFETY: a valid descriptor; the program and its steps outlive the call.
    let rc = unsafe {
        let program = std::ptr::from_ref(&program).cast();
        let (level, option) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
        libc::setsockopt(socket.as_raw_fd(), level, option, program, bytes)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, SocketAddr};

    use etherparse::PacketBuilder;

    /// Executes the program as the kernel does.
    fn accepts(program: &[sock_filter], protocol: u32, packet: &[u8]) -> bool {
        let (mut a, mut x, mut stored, mut at) = (0_u32, 0_u32, 0_u32, 0);
        let byte = |at: u32| packet.get(at as usize).copied().map(u32::from);
        let half = |at: u32| Some(byte(at)? << 8 | byte(at + 1)?);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let mut jump = |is_true: bool| at += usize::from(if is_true { jt } else { jf });
            let loaded = match code {
                LOAD_HALF if k == PROTOCOL => Some(protocol),
                LOAD_HALF => half(k),
                LOAD_BYTE => byte(k),
                LOAD_WORD => half(k).zip(half(k + 2)).map(|(high, low)| high << 16 | low),
                LOAD_A => Some(k),
                XOR_X => Some(a ^ x),
                MULTIPLY => Some(a.wrapping_mul(k)),
                SHIFT_RIGHT => Some(a >> k),
                LOAD_HALF_BEHIND => half(x + k),
                LOAD_HEADER => {
                    x = (byte(k).unwrap_or(0) & 0xf) * 4;
                    continue;
                }
                LOAD_X => {
                    x = k;
                    continue;
                }
                A_TO_X => {
                    x = a;
                    continue;
                }
                STORE => {
                    stored = a;
                    continue;
                }
                LOAD_X_STORED => {
                    x = stored;
                    continue;
                }
                IF_EQUAL => {
                    jump(a == k);
                    continue;
                }
                IF_SET => {
                    jump(a & k != 0);
                    continue;
                }
                JUMP => {
                    at += k as usize;
                    continue;
                }
                RETURN => return k > 0,
                _ => panic!("code {code}"),
            };
            let Some(value) = loaded else { return false };
            a = value;
        }
    }

    #[test]
    fn the_last_port_passes_too() {
        let ports = (1..=PORTS_MAX as u16).collect::<Vec<_>>();
        let shares = Share::all(Share::COUNT_MAX);
        assert!(program(&ports, &shares[0]).len() <= 4096, "BPF_MAXINSNS");
        let program = program(&ports, &Share::WHOLE);
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 9).tcp(9, PORTS_MAX as u16, 1, 1);
        builder.write(&mut packet, b"x").unwrap();
        assert!(accepts(&program, IPV6, &packet));
    }

    #[test]
    fn only_packets_of_the_ports_pass() {
        let program = program(&[3306, 3307], &Share::WHOLE);
        let four = |from, to| {
            let mut packet = Vec::new();
            let builder = PacketBuilder::ipv4([1; 4], [2; 4], 9).tcp(from, to, 1, 1);
            builder.write(&mut packet, b"x").unwrap();
            packet
        };
        let six = |from, to| {
            let mut packet = Vec::new();
            let builder = PacketBuilder::ipv6([1; 16], [2; 16], 9).tcp(from, to, 1, 1);
            builder.write(&mut packet, b"x").unwrap();
            packet
        };
        for (from, to, is_wanted) in
            [(3306, 9, true), (9, 3306, true), (9, 3307, true), (9, 3308, false), (80, 443, false)]
        {
            assert_eq!(accepts(&program, IPV4, &four(from, to)), is_wanted, "{from} {to}");
            assert_eq!(accepts(&program, IPV6, &six(from, to)), is_wanted, "{from} {to}");
        }
        let mut udp = Vec::new();
        PacketBuilder::ipv4([1; 4], [2; 4], 9).udp(3306, 3306).write(&mut udp, b"x").unwrap();
        assert!(!accepts(&program, IPV4, &udp));
        let mut fragment = four(9, 3306);
        fragment[7] = 9;
        assert!(!accepts(&program, IPV4, &fragment));
        assert!(!accepts(&program, 0x0806, &four(9, 3306)), "ARP");
        assert!(accepts(&program, 0x8100, b""));
        assert!(!accepts(&program, IPV4, b""));
    }

    /// The ring whose filter accepts a packet is that of the thread which has the connection.
    #[test]
    fn a_packet_passes_the_filter_of_its_share_only() {
        let shares = Share::all(5);
        let ports = [3306, 3307];
        let of = |ports: &[u16]| shares.iter().map(|it| program(ports, it)).collect::<Vec<_>>();
        let (of_ports, of_all) = (of(&ports), of(&[]));
        for number in 0..500_u16 {
            let (client, server) = (1024 + number * 97, ports[usize::from(number % 2)]);
            let [low, high] = number.to_le_bytes();
            let four = [[10, high, low, 1], [10, 0, 0, 129]];
            let mut six = [[0x20; 16]; 2];
            (six[0][5], six[0][15], six[1][9]) = (low, high, 7);
            for (from, to) in [(0, 1), (1, 0)] {
                let port = [client, server];
                let builder = PacketBuilder::ipv4(four[from], four[to], 9);
                let mut packet = Vec::new();
                builder.tcp(port[from], port[to], 1, 1).write(&mut packet, b"x").unwrap();
                check(&packet, IPV4, four.map(Into::into), port, &shares, &of_ports);
                check(&packet, IPV4, four.map(Into::into), port, &shares, &of_all);
                let builder = PacketBuilder::ipv6(six[from], six[to], 9);
                let mut packet = Vec::new();
                builder.tcp(port[from], port[to], 1, 1).write(&mut packet, b"x").unwrap();
                check(&packet, IPV6, six.map(Into::into), port, &shares, &of_ports);
            }
        }
    }

    fn check(
        packet: &[u8],
        protocol: u32,
        ips: [IpAddr; 2],
        ports: [u16; 2],
        shares: &[Share],
        programs: &[Vec<sock_filter>],
    ) {
        let [client, server] = [0, 1].map(|end| SocketAddr::new(ips[end], ports[end]));
        for (share, program) in shares.iter().zip(programs) {
            let is_accepted = accepts(program, protocol, packet);
            assert_eq!(is_accepted, share.has(client, server), "{client} {server} {share:?}");
        }
    }
}
