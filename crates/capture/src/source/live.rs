//! Packets of an interface: packet sockets with a ring of blocks that the kernel fills
//! (`TPACKET_V3`), and a filter in the kernel for the servers' ports.
//!
//! The sockets are of network-layer packets (`SOCK_DGRAM`): so frames of every kind of interface
//! look the same, also with the interface `any`.
//!
//! Several threads have a ring each, and filters that share the connections between these
//! ([`super::share`]). `docs/decisions/2026-11-27-capture-threads.md` says why this is not a
//! `PACKET_FANOUT` group.

mod binding;
mod ring;
mod socket;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use super::filter;
use super::share::Share;
pub use binding::{Binding, Change};
pub use ring::{BLOCK_WAIT, Ring};

/// The interface that stands for all.
pub const ANY: &str = "any";

/// Why an interface cannot be captured.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// There is no such interface.
    #[error("there is no interface {0}; `ip link` lists them, and `any` is all of them")]
    NoInterface(String),
    /// More ports than a filter has space for.
    #[error(
        "the servers have {0} ports, and one capture can have {max}; start another one for the rest",
        max = filter::PORTS_MAX
    )]
    TooManyPorts(usize),
    /// The kernel refuses a packet socket.
    #[error(
        "cannot open a packet socket: {0}; run as root, or give the program the capability \
         CAP_NET_RAW"
    )]
    Socket(io::Error),
    /// A part of its configuration.
    #[error("cannot {what} of the packet socket on {interface}: {error}")]
    Setup {
        /// What was tried.
        what: &'static str,
        /// The interface.
        interface: String,
        /// The system's error.
        error: io::Error,
    },
    /// Packets cannot be waited for.
    #[error("cannot wait for packets: {0}")]
    Wait(io::Error),
}

/// A packet of the ring.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'r> {
    /// Its `EtherType`.
    pub protocol: u16,
    /// When the kernel received it, µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// Its captured bytes, from the network header on.
    pub bytes: &'r [u8],
    /// How many it has.
    pub packet_bytes: usize,
    /// It came from the network, and nothing has verified its checksum.
    pub is_unverified: bool,
}

/// What the kernel has counted since the last question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that passed the filter.
    pub packets: u64,
    /// Those that the ring had no space for.
    pub dropped: u64,
}

/// What to capture.
#[derive(Clone, Copy, Debug)]
pub struct LiveSource<'s> {
    /// The interface; [`ANY`] is all of them.
    pub interface: &'s str,
    /// The servers, of which the ports count here; none: all ports.
    pub servers: &'s [SocketAddr],
    /// Size of all rings together, bytes; a ring has at least two blocks of 256 KiB.
    pub ring_bytes: usize,
}

impl LiveSource<'_> {
    /// Begins to capture, with a ring for each share. Needs the capability `CAP_NET_RAW`.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn open(&self, shares: &[Share]) -> Result<(Vec<Ring>, Binding), LiveError> {
        let ring_bytes = self.ring_bytes / shares.len().max(1);
        let rings = shares.iter().map(|share| self.prepare(*share, ring_bytes));
        let rings = rings.collect::<Result<Vec<Ring>, LiveError>>()?;
        let binding = self.bind(&rings)?;
        Ok((rings, binding))
    }

    /// The same with one ring for all connections.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn open_one(&self) -> Result<(Ring, Binding), LiveError> {
        let ring = self.prepare(Share::WHOLE, self.ring_bytes)?;
        let binding = self.bind(std::slice::from_ref(&ring))?;
        Ok((ring, binding))
    }

    fn prepare(&self, share: Share, ring_bytes: usize) -> Result<Ring, LiveError> {
        let ports = ports_of(self.servers);
        if ports.len() > filter::PORTS_MAX {
            return Err(LiveError::TooManyPorts(ports.len()));
        }
        let index = socket::index_of(self.interface)?;
        let socket = socket::open().map_err(LiveError::Socket)?;
        let ring = Ring::new(socket, index, &ports, share, ring_bytes);
        ring.map_err(|(what, error)| self.refused(what, error))
    }

    /// Last, and one ring right after the other: from now on packets arrive.
    fn bind(&self, rings: &[Ring]) -> Result<Binding, LiveError> {
        let index = socket::index_of(self.interface)?;
        let sockets = rings.iter().map(Ring::socket).collect::<Vec<_>>();
        for socket in &sockets {
            let bound = socket::bind(socket, index);
            bound.map_err(|error| self.refused("begin the capture", error))?;
        }
        for ring in rings {
            // Counts from before the bind are not ours.
            ring.counts().map_err(|error| self.refused("read the counters", error))?;
        }
        Ok(Binding::new(self.interface, index, sockets))
    }

    fn refused(&self, what: &'static str, error: io::Error) -> LiveError {
        LiveError::Setup { what, interface: self.interface.to_owned(), error }
    }
}

/// The ports of servers, each once.
pub fn ports_of(servers: &[SocketAddr]) -> Vec<u16> {
    servers.iter().map(SocketAddr::port).collect::<BTreeSet<_>>().into_iter().collect()
}
