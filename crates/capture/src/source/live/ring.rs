//! One packet socket, and the ring that the kernel fills.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{offset_of, size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use super::socket::{index_of_name, set};
use super::{Counts, LiveError, Packet};
use crate::source::filter;
use crate::source::share::Share;

/// Bytes of a block. A packet is never larger than that, unless the host has enabled BIG TCP; then
/// the kernel cuts it off, and the rest is missing.
const BLOCK_BYTES: usize = 1 << 18;
/// A block that is not full is handed over after so long, ms. With few packets, this times the
/// number of blocks is how long the capture may stand still.
const BLOCK_TIMEOUT_MS: u32 = 50;
/// After this time a packet that was captured is certainly in a block that was handed over.
pub const BLOCK_WAIT: Duration = Duration::from_millis(5 * BLOCK_TIMEOUT_MS as u64);
/// Frames that the kernel checks the sizes with; their real sizes vary.
const FRAME_BYTES: usize = 1 << 11;

/// A ring, see the module documentation.
pub struct Ring {
    /// Shared with [`super::Binding`], which binds it.
    socket: Arc<OwnedFd>,
    share: Share,
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

/// What was tried with the socket, and the system's error.
type Refused = (&'static str, io::Error);

impl Ring {
    /// Sets a socket up that is not bound yet: to the interface of this index, 0 is all of them;
    /// for these ports of this share, in a ring of about `ring_bytes`.
    pub(super) fn new(
        socket: OwnedFd,
        index: i32,
        ports: &[u16],
        share: Share,
        ring_bytes: usize,
    ) -> Result<Ring, Refused> {
        let tried = |what: &'static str| move |error| (what, error);
        filter::attach(&socket, ports, &share).map_err(tried("set the filter"))?;
        let loopback = index_of_name(c"lo").unwrap_or(-1);
        if index == loopback {
            // On lo each packet arrives twice. An old kernel refuses; then `next` drops one.
            let _ = set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        }
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(tried("set the version"))?;
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
            .map_err(tried("make the ring"))?;
        let map = Map::new(&socket, block_count * BLOCK_BYTES).map_err(tried("map the ring"))?;
        Ok(Ring { socket: Arc::new(socket), share, map, block_count, next: 0, loopback })
    }

    pub(super) fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// The connections that it has. Few packets of others pass, too.
    pub fn share(&self) -> Share {
        self.share
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
