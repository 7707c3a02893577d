//! What the kernel says about an interface. Any user may ask, in any namespace: sysfs would show
//! the interfaces of the namespace that has mounted it.

use std::ffi::{c_char, c_short, c_ulong};
use std::mem::zeroed;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;

use serde::Serialize;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether it passes packets: an administrator has set it up, and it has a link.
    pub is_up: bool,
    /// Whether its packets never leave this host.
    pub is_loopback: bool,
    /// Its kind.
    pub link: String,
    /// Longest packet, bytes.
    pub mtu: u32,
    /// Work that the network card does for the host. Captured packets are then larger than those on
    /// the wire, and sent ones have no checksum yet; a capture reads both.
    pub offloads: Vec<&'static str>,
}

/// A question of `SIOCETHTOOL`, and the kernel's answer.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Offloads by the command that asks for them, of `linux/ethtool.h`, and the bit of the answer.
const OFFLOADS: [(&str, u32, u32); 4] =
    [("gro", 0x2b, 1), ("lro", 0x25, 1 << 15), ("tso", 0x1e, 1), ("gso", 0x23, 1)];

impl Interface {
    /// The interface of this name. `None`: there is none, or it is gone.
    pub fn of(name: &str) -> Option<Interface> {
        let query = Query::new(name)?;
        let flags = query.flags()?;
        let has = |flag: libc::c_int| i32::from(flags) & flag != 0;
        Some(Interface {
            name: name.to_owned(),
            is_up: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
            is_loopback: has(libc::IFF_LOOPBACK),
            link: link_name(query.link()?),
            mtu: query.mtu()?,
            offloads: OFFLOADS
                .into_iter()
                .filter(|(_, command, bit)| query.offload(*command).is_some_and(|it| it & bit != 0))
                .map(|(name, ..)| name)
                .collect(),
        })
    }
}

/// The name of a kind of link (`ARPHRD_`…).
fn link_name(kind: u16) -> String {
    match kind {
        libc::ARPHRD_ETHER => "Ethernet".to_owned(),
        libc::ARPHRD_LOOPBACK => "loopback".to_owned(),
        libc::ARPHRD_INFINIBAND => "InfiniBand".to_owned(),
        libc::ARPHRD_PPP => "PPP".to_owned(),
        libc::ARPHRD_NONE => "IP without a link header".to_owned(),
        other => format!("link type {other}"),
    }
}

/// Questions about one interface.
struct Query {
    socket: UnixDatagram,
    request: libc::ifreq,
}

impl Query {
    fn new(name: &str) -> Option<Query> {
        // Any socket may ask.
        let socket = UnixDatagram::unbound().ok()?;
        // SAFETY: all-zero bytes are a valid request.
        let mut request: libc::ifreq = unsafe { zeroed() };
        // The last byte stays 0: the name is terminated.
        let room = request.ifr_name.len() - 1;
        if name.is_empty() || name.len() > room || name.contains('\0') {
            return None;
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as c_char;
        }
        Some(Query { socket, request })
    }

    fn ask(&self, what: c_ulong, mut request: libc::ifreq) -> Option<libc::ifreq> {
        // SAFETY: a valid descriptor and request; what the request points to outlives the call.
        let rc = unsafe { libc::ioctl(self.socket.as_raw_fd(), what as _, &raw mut request) };
        (rc == 0).then_some(request)
    }

    fn flags(&self) -> Option<c_short> {
        let answer = self.ask(libc::SIOCGIFFLAGS, self.request)?;
        // SAFETY: the kernel has written this member.
        Some(unsafe { answer.ifr_ifru.ifru_flags })
    }

    fn mtu(&self) -> Option<u32> {
        let answer = self.ask(libc::SIOCGIFMTU, self.request)?;
        // SAFETY: the kernel has written this member.
        u32::try_from(unsafe { answer.ifr_ifru.ifru_mtu }).ok()
    }

    fn link(&self) -> Option<u16> {
        let answer = self.ask(libc::SIOCGIFHWADDR, self.request)?;
        // SAFETY: the kernel has written this member.
        Some(unsafe { answer.ifr_ifru.ifru_hwaddr.sa_family })
    }

    /// `None`: the driver does not say.
    fn offload(&self, command: u32) -> Option<u32> {
        let mut value = EthtoolValue { command, data: 0 };
        let mut request = self.request;
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        self.ask(libc::SIOCETHTOOL, request)?;
        Some(value.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_describes_the_loopback_interface() {
        let lo = Interface::of("lo").expect("there is always one");
        assert!(lo.is_loopback && lo.mtu > 1000, "{lo:?}");
        assert_eq!(lo.link, "loopback");
        for none in ["", "no-such-if", "a name that is longer than that of an interface", "lo\0x"] {
            assert_eq!(Interface::of(none), None, "{none:?}");
        }
    }
}
