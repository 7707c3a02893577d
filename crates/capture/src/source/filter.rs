//! The filter in the kernel: TCP packets from or to the servers' ports.
//!
//! Addresses are compared later: a filter with them would be no faster.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::sock_filter;

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
const LOAD_HEADER: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const LOAD_X: u16 = (libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM) as u16;
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
fn of_ports(ports: &[u16]) -> Vec<sock_filter> {
    if ports.is_empty() {
        return vec![step(RETURN, ACCEPT)];
    }
    let mut steps = Vec::new();
    for offset in [0, 2] {
        steps.push(step(LOAD_HALF_BEHIND, offset));
        for port in ports {
            steps.push(only(IF_EQUAL, u32::from(*port), 1));
            steps.push(step(RETURN, ACCEPT));
        }
    }
    steps.push(step(RETURN, 0));
    steps
}

/// TCP over IPv4, the first fragment.
fn of_ipv4(ports: &[u16]) -> Vec<sock_filter> {
    let mut steps = vec![
        step(LOAD_BYTE, 9),
        unless(IF_EQUAL, TCP),
        step(RETURN, 0),
        step(LOAD_HALF, 6),
        only(IF_SET, 0x1fff, 1),
        step(RETURN, 0),
        step(LOAD_HEADER, 0),
    ];
    steps.extend(of_ports(ports));
    steps
}

/// TCP over IPv6, without other headers between.
fn of_ipv6(ports: &[u16]) -> Vec<sock_filter> {
    let mut steps =
        vec![step(LOAD_BYTE, 6), unless(IF_EQUAL, TCP), step(RETURN, 0), step(LOAD_X, 40)];
    steps.extend(of_ports(ports));
    steps
}

/// The program. Packets begin with the network header.
fn program(ports: &[u16]) -> Vec<sock_filter> {
    let mut steps = vec![step(LOAD_HALF, PROTOCOL)];
    for vlan in VLANS {
        steps.push(only(IF_EQUAL, vlan, 1));
        steps.push(step(RETURN, ACCEPT));
    }
    let ipv4 = of_ipv4(ports);
    steps.push(only(IF_EQUAL, IPV6, 1));
    // Over the next two steps, and over those of IPv4.
    steps.push(step(JUMP, 2 + ipv4.len() as u32));
    steps.push(unless(IF_EQUAL, IPV4));
    steps.push(step(RETURN, 0));
    steps.extend(ipv4);
    steps.extend(of_ipv6(ports));
    steps
}

/// Attaches it to a socket.
///
/// # Errors
/// The kernel refuses it.
pub fn attach(socket: &OwnedFd, ports: &[u16]) -> io::Result<()> {
    let mut steps = program(ports);
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
    use etherparse::PacketBuilder;

    /// Executes the program as the kernel does.
    fn accepts(program: &[sock_filter], protocol: u32, packet: &[u8]) -> bool {
        let (mut a, mut x, mut at) = (0_u32, 0_u32, 0);
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
                LOAD_HALF_BEHIND => half(x + k),
                LOAD_HEADER => {
                    x = (byte(k).unwrap_or(0) & 0xf) * 4;
                    continue;
                }
                LOAD_X => {
                    x = k;
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
        let program = program(&ports);
        assert!(program.len() <= 4096, "BPF_MAXINSNS");
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 9).tcp(9, PORTS_MAX as u16, 1, 1);
        builder.write(&mut packet, b"x").unwrap();
        assert!(accepts(&program, IPV6, &packet));
    }

    #[test]
    fn only_packets_of_the_ports_pass() {
        let program = program(&[3306, 3307]);
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
}
