//! Listens for a while, and says what a capture would record. It writes nothing.

mod interface;
mod tally;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

pub use interface::Interface;
pub use tally::{Counts, Server};

use crate::flows::{Budget, Flows};
use crate::link::Segment;
use crate::packets::{self, Taker, WAIT, now_us};
use crate::source::live::{Binding, Change, LiveError, LiveSource, Ring, ports_of};
use tacho_uprobes::{UprobeError, Uprobes};
use tally::Tally;

/// What to listen to.
#[derive(Clone, Debug)]
pub struct Check {
    /// The interface; `any` is all of them.
    pub interface: String,
    /// The servers; none: they are recognised by their greeting and by port 3306.
    pub servers: Vec<SocketAddr>,
    /// Size of the ring that the kernel fills, bytes.
    pub ring_bytes: usize,
    /// Memory for connections.
    pub budget: Budget,
}

/// The packets and connections of that time.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// TCP packets of the servers' ports, or all of them if no server is named.
    pub packets: u64,
    /// Packets that the kernel had no space for.
    pub dropped: u64,
    /// Packets with a wrong checksum: their receiver discards them.
    pub damaged: u64,
    /// The interface was removed meanwhile.
    pub is_gone: bool,
    /// Segments, connections and events.
    pub counts: Counts,
    /// Servers by their address.
    pub servers: BTreeMap<String, Server>,
}

/// Why a capture would record statements, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Statements passed, and were understood.
    Recorded,
    /// The interface is down, and nothing passed.
    Down,
    /// No packet of a server passed.
    NoPackets,
    /// Only clients were heard.
    OnlyClients,
    /// Only servers were heard.
    OnlyServers,
    /// All connections are encrypted.
    Encrypted,
    /// There was data, but no command that is certain.
    NotUnderstood,
    /// Clients logged in, and sent no command.
    NoCommands,
    /// The encrypted sessions cannot be read as wanted, so the capture would not start.
    NoUprobes,
}

impl Verdict {
    /// Its name in the result for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Recorded => "recorded",
            Verdict::Down => "interface_down",
            Verdict::NoPackets => "no_packets",
            Verdict::OnlyClients => "only_clients",
            Verdict::OnlyServers => "only_servers",
            Verdict::Encrypted => "encrypted",
            Verdict::NotUnderstood => "not_understood",
            Verdict::NoCommands => "no_commands",
            Verdict::NoUprobes => "no_uprobes",
        }
    }
}

impl Findings {
    /// What they mean; `interface` is as it was before, `None` for `any`.
    pub fn verdict(&self, interface: Option<&Interface>) -> Verdict {
        let Counts { from_clients, from_servers, connections, encrypted, logins, .. } = self.counts;
        if self.counts.has_commands() {
            Verdict::Recorded
        } else if from_clients + from_servers == 0 {
            let is_down = self.is_gone || interface.is_some_and(|it| !it.is_up);
            if is_down { Verdict::Down } else { Verdict::NoPackets }
        } else if from_servers == 0 {
            Verdict::OnlyClients
        } else if from_clients == 0 {
            Verdict::OnlyServers
        } else if encrypted > 0 && encrypted == connections {
            Verdict::Encrypted
        } else if logins > 0 {
            Verdict::NoCommands
        } else {
            Verdict::NotUnderstood
        }
    }
}

/// Whether the encrypted sessions of a process could be read: attaches to it as a capture would,
/// and detaches at once.
///
/// # Errors
/// They could not.
pub fn try_uprobes(
    process: NonZeroU32,
    servers: &[SocketAddr],
    ring_bytes: usize,
) -> Result<(), UprobeError> {
    Uprobes::attach(process, &ports_of(servers), ring_bytes).map(drop)
}

/// A check whose socket is open. It needs no privileges any more.
pub struct Open {
    ring: Ring,
    listener: Listener,
}

/// What it has heard.
struct Listener {
    binding: Binding,
    flows: Flows,
    tally: Tally,
    findings: Findings,
    until: Instant,
}

impl Check {
    /// Opens the socket, which needs the capability `CAP_NET_RAW`.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn open(self) -> Result<Open, LiveError> {
        let Check { interface, servers, ring_bytes, budget } = self;
        let source = LiveSource { interface: &interface, servers: &servers, ring_bytes };
        let (ring, binding) = source.open_one()?;
        let flows = Flows::new(servers, budget);
        let (tally, findings) = (Tally::default(), Findings::default());
        let listener = Listener { binding, flows, tally, findings, until: Instant::now() };
        Ok(Open { ring, listener })
    }
}

impl Open {
    /// Listens for this time, or until `stop` becomes readable.
    ///
    /// # Errors
    /// Packets cannot be waited for.
    pub fn listen(self, time: Duration, stop: BorrowedFd<'_>) -> Result<Findings, LiveError> {
        let Open { mut ring, mut listener } = self;
        listener.until = Instant::now() + time;
        packets::take(&mut ring, stop, &mut listener)?;
        // What was sent before.
        if packets::take_rest(&mut ring, &mut listener) {
            ring.wait_for_rest()?;
            packets::take_blocks(&mut ring, 1, &mut listener);
        }
        listener.look(&ring);
        let Listener { mut flows, mut tally, mut findings, .. } = listener;
        flows.finish(&mut tally);
        (findings.counts, findings.servers) = tally.finish();
        Ok(findings)
    }
}

impl Listener {
    fn look(&mut self, ring: &Ring) {
        // A kernel that does not answer has no news.
        let counts = ring.counts().unwrap_or_default();
        self.findings.packets += counts.packets;
        self.findings.dropped += counts.dropped;
        self.findings.is_gone = self.binding.follow() == Change::Gone;
        // Half a second behind: packets may still be in a block that is not full.
        self.flows.tick(now_us() - 500_000, &mut self.tally);
    }
}

impl Taker for Listener {
    fn segment(&mut self, segment: &Segment<'_>) {
        self.flows.segment(segment, &mut self.tally);
        if let Some((client, server, side)) = self.flows.sides(segment) {
            self.tally.segment(client, server, side, segment);
        }
    }

    fn damaged(&mut self) {
        self.findings.damaged += 1;
    }

    fn turn(&mut self, ring: &Ring, since: Instant, _: bool) -> Option<Duration> {
        self.look(ring);
        let left = self.until.saturating_duration_since(since);
        (!left.is_zero()).then_some(left.min(WAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: Counts) -> Findings {
        Findings { counts, ..Findings::default() }
    }

    #[test]
    fn the_verdict_names_the_first_thing_that_is_missing() {
        let interface = |is_up| Interface {
            name: "eth0".to_owned(),
            is_up,
            is_loopback: false,
            link: "Ethernet".to_owned(),
            mtu: 1500,
            offloads: Vec::new(),
        };
        let up = interface(true);
        assert_eq!(of(Counts::default()).verdict(Some(&up)), Verdict::NoPackets);
        assert_eq!(of(Counts::default()).verdict(None), Verdict::NoPackets);
        assert_eq!(of(Counts::default()).verdict(Some(&interface(false))), Verdict::Down);
        let gone = Findings { is_gone: true, ..Findings::default() };
        assert_eq!(gone.verdict(Some(&up)), Verdict::Down);
        let one = Counts { connections: 2, from_clients: 5, ..Counts::default() };
        assert_eq!(of(one).verdict(None), Verdict::OnlyClients);
        let other = Counts { from_clients: 0, from_servers: 5, ..one };
        assert_eq!(of(other).verdict(None), Verdict::OnlyServers);
        let both = Counts { from_servers: 5, ..one };
        assert_eq!(of(both).verdict(None), Verdict::NotUnderstood);
        assert_eq!(of(Counts { encrypted: 1, ..both }).verdict(None), Verdict::NotUnderstood);
        assert_eq!(of(Counts { encrypted: 2, ..both }).verdict(None), Verdict::Encrypted);
        let login = Counts { logins: 1, encrypted: 1, ..both };
        assert_eq!(of(login).verdict(None), Verdict::NoCommands);
        for seen in [Counts { statements: 1, ..login }, Counts { commands: 1, ..login }] {
            assert_eq!(of(seen).verdict(Some(&up)), Verdict::Recorded);
        }
    }
}
