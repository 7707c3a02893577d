//! Packets of an interface: a packet socket with a ring of blocks that the kernel fills
//! (`TPACKET_V3`), and a filter in the kernel for the servers' ports.
//!
//! The socket is one of network-layer packets (`SOCK_DGRAM`): so frames of every kind of interface
//! look the same, also with the interface `any`.

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::mem::{offset_of, size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use super::filter;

/// The interface that stands for all.
pub const ANY: &str = "any";
/// Bytes of a block. A packet is never larger than that.
const BLOCK_BYTES: usize = 1 << 20;
/// A block that is not full is handed over after so long, ms.
const BLOCK_TIMEOUT_MS: u32 = 20;
/// After this time a packet that was captured is certainly in a block that was handed over.
pub const BLOCK_WAIT: Duration = Duration::from_millis(5 * BLOCK_TIMEOUT_MS as u64);
/// Frames that the kernel checks the sizes with; their real sizes vary.
const FRAME_BYTES: usize = 1 << 11;

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

/// A change of the interface since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Same,
    /// There is no interface of that name.
    Gone,
    /// There is another one of the same name. It is captured from now on.
    New,
}

/// What the kernel has counted since the last question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that passed the filter.
    pub packets: u64,
    /// Those that the ring had no space for.
    pub dropped: u64,
}

/// A ring, see the module documentation.
pub struct Ring {
    interface: String,
    /// Index of the interface; 0 is all.
    index: i32,
    /// There was no interface of this name at the last look.
    is_gone: bool,
    socket: OwnedFd,
    map: Map,
    block_count: usize,
    next: usize,
    loopback: i32,
}

/// The memory that is shared with the kernel.
struct Map {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the ring, which one thread uses at a time.
unsafe impl Send for Map {}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `Map::new` with this length; nothing borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

impl Map {
    fn new(socket: &OwnedFd, bytes: usize) -> io::Result<Map> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Map { base, bytes })
    }
}

/// Index of an interface; 0 is all.
fn index_of(interface: &str) -> Result<i32, LiveError> {
    if interface == ANY {
        return Ok(0);
    }
    let none = || LiveError::NoInterface(interface.to_owned());
    let name = CString::new(interface).map_err(|_| none())?;
    index_of_name(&name).ok_or_else(none)
}

fn index_of_name(name: &CStr) -> Option<i32> {
    // SAFETY: the name is terminated.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    i32::try_from(index).ok().filter(|index| *index > 0)
}

fn set<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let value_bytes = size_of_val(value) as libc::socklen_t;
    // SAFETY: a valid descriptor; the pointer is valid for that many bytes.
    let rc = unsafe {
        let value = std::ptr::from_ref(value).cast::<c_void>();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, value_bytes)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Ring {
    /// Begins to capture TCP packets of these ports, in a ring of about `ring_bytes`.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn open(interface: &str, ports: &[u16], ring_bytes: usize) -> Result<Ring, LiveError> {
        if ports.len() > filter::PORTS_MAX {
            return Err(LiveError::TooManyPorts(ports.len()));
        }
        let index = index_of(interface)?;
        let setup =
            |what| move |error| LiveError::Setup { what, interface: interface.to_owned(), error };
        // Protocol 0: nothing arrives before everything is set up.
        let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the call has no pointers; its result is checked.
        let socket = unsafe { libc::socket(libc::AF_PACKET, flags, 0) };
        if socket < 0 {
            return Err(LiveError::Socket(io::Error::last_os_error()));
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        filter::attach(&socket, ports).map_err(setup("set the filter"))?;
        let loopback = index_of_name(c"lo").unwrap_or(-1);
        if index == loopback {
            // On lo each packet arrives twice. An old kernel refuses; then `next` drops one.
            let _ = set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        }
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(setup("set the version"))?;
        let block_count = (ring_bytes / BLOCK_BYTES).max(2);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: block_count as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (block_count * (BLOCK_BYTES / FRAME_BYTES)) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .map_err(setup("make the ring"))?;
        let map = Map::new(&socket, block_count * BLOCK_BYTES).map_err(setup("map the ring"))?;
        bind(&socket, index).map_err(setup("begin the capture"))?;
        let interface = interface.to_owned();
        let is_gone = false;
        let ring = Ring { interface, index, is_gone, socket, map, block_count, next: 0, loopback };
        // Counts from before the bind are not ours.
        ring.counts().map_err(setup("read the counters"))?;
        Ok(ring)
    }

    /// Packets and drops since the last call.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn counts(&self) -> io::Result<Counts> {
        // SAFETY: all-zero bytes are valid numbers.
        let mut stats: libc::tpacket_stats_v3 = unsafe { zeroed() };
        let mut bytes = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: a valid descriptor; the pointers are valid for that many bytes.
        let rc = unsafe {
            let stats = std::ptr::from_mut(&mut stats).cast::<c_void>();
            let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
            libc::getsockopt(self.socket.as_raw_fd(), level, option, stats, &mut bytes)
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Counts { packets: stats.tp_packets.into(), dropped: stats.tp_drops.into() })
    }

    /// Waits until there are packets, or `until` becomes readable, or the time is over.
    ///
    /// # Errors
    /// It cannot wait; an interface that goes down is no error.
    pub fn wait(&self, until: BorrowedFd<'_>, at_most: Duration) -> Result<(), LiveError> {
        self.wait_or(until.as_raw_fd(), at_most)
    }

    /// Waits until there are packets. A block that is not full is handed over after some
    /// milliseconds, so after a wait without packets there were none before it.
    ///
    /// # Errors
    /// As [`Ring::wait`].
    pub fn wait_for_rest(&self) -> Result<(), LiveError> {
        // No descriptor: the system call ignores it.
        self.wait_or(-1, BLOCK_WAIT)
    }

    fn wait_or(&self, until: RawFd, at_most: Duration) -> Result<(), LiveError> {
        if self.is_ready() {
            return Ok(());
        }
        let poll = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [poll(self.socket.as_raw_fd()), poll(until)];
        let timeout_ms = c_int::try_from(at_most.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: the array has two entries.
        let rc = unsafe { libc::poll(fds.as_mut_ptr(), 2, timeout_ms) };
        if rc < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(LiveError::Wait(error));
            }
        }
        if fds[0].revents & libc::POLLERR != 0 {
            self.take_error();
        }
        Ok(())
    }

    /// Follows an interface that was removed and made again, such as that of a tunnel or of a
    /// container: the socket is bound to the old one.
    pub fn follow(&mut self) -> Change {
        if self.interface == ANY {
            return Change::Same;
        }
        match index_of(&self.interface) {
            Ok(index) if index == self.index && !self.is_gone => Change::Same,
            // It may be removed again at any time.
            Ok(index) if bind(&self.socket, index).is_ok() => {
                (self.index, self.is_gone) = (index, false);
                Change::New
            }
            _ => {
                self.is_gone = true;
                Change::Gone
            }
        }
    }

    /// Blocks of the ring.
    pub fn block_count(&self) -> usize {
        self.block_count
    }

    /// Clears the error of an interface that went down: it may come up again.
    fn take_error(&self) {
        let mut error: c_int = 0;
        let mut bytes = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: a valid descriptor; the pointers are valid for that many bytes.
        unsafe {
            let error = std::ptr::from_mut(&mut error).cast::<c_void>();
            let (level, option) = (libc::SOL_SOCKET, libc::SO_ERROR);
            libc::getsockopt(self.socket.as_raw_fd(), level, option, error, &mut bytes);
        }
    }

    fn block(&self) -> NonNull<u8> {
        // SAFETY: `next` is below the number of blocks of the mapping.
        unsafe { self.map.base.add(self.next * BLOCK_BYTES) }
    }

    fn status(&self) -> &AtomicU32 {
        const AT: usize = offset_of!(libc::tpacket_block_desc, hdr)
            + offset_of!(libc::tpacket_hdr_v1, block_status);
        // SAFETY: within the block, aligned to 4; the kernel changes it while we read.
        unsafe { AtomicU32::from_ptr(self.block().as_ptr().add(AT).cast()) }
    }

    fn is_ready(&self) -> bool {
        // SYNC ring: pairs with the kernel, which stores the status after the packets.
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Passes the packets of the next block to `each`, and gives it back to the kernel. `false`:
    /// there is none.
    pub fn next(&mut self, each: &mut dyn FnMut(Packet<'_>)) -> bool {
        if !self.is_ready() {
            return false;
        }
        // SAFETY: the block is ours until its status is changed below; the kernel does not write.
        let block = unsafe { std::slice::from_raw_parts(self.block().as_ptr(), BLOCK_BYTES) };
        let head = offset_of!(libc::tpacket_block_desc, hdr);
        let count = u32_at(block, head + offset_of!(libc::tpacket_hdr_v1, num_pkts));
        let first = u32_at(block, head + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt));
        let (mut at, mut left) = (first.unwrap_or(0) as usize, count.unwrap_or(0));
        while left > 0
            && let Some((packet, next)) = self.packet(block, at)
        {
            if let Some(packet) = packet {
                each(packet);
            }
            left -= 1;
            at += next;
        }
        // SYNC ring: pairs with the kernel: all reads of the block precede its return.
        fence(Ordering::Release);
        // SYNC ring: as above.
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.block_count;
        true
    }

    /// The packet at a position, unless it is the second one of the same on lo; and the distance of
    /// the next one. `None`: the block is damaged.
    fn packet<'b>(&self, block: &'b [u8], at: usize) -> Option<(Option<Packet<'b>>, usize)> {
        const ALIGN: usize = 16;
        // What this host sends to itself has no checksum yet.
        const VERIFIED: u32 = libc::TP_STATUS_CSUM_VALID | libc::TP_STATUS_CSUMNOTREADY;
        const ADDRESS_AT: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(ALIGN);
        let head = block.get(at..)?;
        let word = |offset| u32_at(head, offset);
        let next = word(offset_of!(libc::tpacket3_hdr, tp_next_offset))? as usize;
        let seconds = i64::from(word(offset_of!(libc::tpacket3_hdr, tp_sec))?);
        let nanos = i64::from(word(offset_of!(libc::tpacket3_hdr, tp_nsec))?);
        let captured = word(offset_of!(libc::tpacket3_hdr, tp_snaplen))? as usize;
        let packet_bytes = word(offset_of!(libc::tpacket3_hdr, tp_len))? as usize;
        let status = word(offset_of!(libc::tpacket3_hdr, tp_status))?;
        let data = u16_at(head, offset_of!(libc::tpacket3_hdr, tp_net))?.into();
        let bytes = head.get(data..)?.get(..captured)?;
        let address = head.get(ADDRESS_AT..)?;
        let protocol = u16_at(address, offset_of!(libc::sockaddr_ll, sll_protocol))?;
        let index = u32_at(address, offset_of!(libc::sockaddr_ll, sll_ifindex))? as i32;
        let kind = *address.get(offset_of!(libc::sockaddr_ll, sll_pkttype))?;
        let is_second = index == self.loopback && kind == libc::PACKET_OUTGOING;
        let packet = Packet {
            protocol: u16::from_be(protocol),
            ts_us: seconds * 1_000_000 + nanos / 1_000,
            bytes,
            packet_bytes,
            is_unverified: kind != libc::PACKET_OUTGOING && status & VERIFIED == 0,
        };
        Some(((!is_second).then_some(packet), next))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn bind(socket: &OwnedFd, index: i32) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: a valid descriptor; the pointer is valid for that many bytes.
    let rc = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
