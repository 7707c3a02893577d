//! The packets of a ring, in turns: first those that are there, then whatever else is due.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::link::{self, Link, Segment};
use crate::probe::is_readable;
use crate::source::live::{LiveError, Packet, Ring};

/// Blocks of the ring that are taken in a turn.
const BLOCKS_MAX: usize = 256;
/// How long to wait for packets at a time: silent connections need a clock.
pub(crate) const WAIT: Duration = Duration::from_millis(100);

/// Takes the packets of a ring.
pub(crate) trait Taker {
    /// A packet was captured at this time, µs since 1970-01-01 UTC.
    fn at(&mut self, _ts_us: i64) {}

    /// Its TCP segment, if it has one.
    fn segment(&mut self, segment: &Segment<'_>);

    /// It has a wrong checksum: its receiver discards it.
    fn damaged(&mut self);

    /// The end of a turn that has begun at `since`. `is_empty`: the ring has nothing more for now.
    /// Returns how long to wait for packets; `None`: no more are wanted.
    fn turn(&mut self, ring: &Ring, since: Instant, is_empty: bool) -> Option<Duration>;
}

/// Passes the packets of a ring to `taker` until that wants no more, or `stop` becomes readable.
///
/// # Errors
/// Packets cannot be waited for.
pub(crate) fn take(
    ring: &mut Ring,
    stop: BorrowedFd<'_>,
    taker: &mut dyn Taker,
) -> Result<(), LiveError> {
    loop {
        let since = Instant::now();
        let is_empty = take_blocks(ring, BLOCKS_MAX, taker) < BLOCKS_MAX;
        let Some(wait) = taker.turn(ring, since, is_empty) else { return Ok(()) };
        if is_readable(stop) {
            return Ok(());
        }
        ring.wait(stop, wait)?;
    }
}

/// Passes everything that has arrived up to now, but not for ever: more arrives meanwhile.
/// `true`: there is no more.
pub(crate) fn take_rest(ring: &mut Ring, taker: &mut dyn Taker) -> bool {
    let count = ring.block_count();
    take_blocks(ring, count, taker) < count
}

/// Passes so many blocks; returns how many there were.
pub(crate) fn take_blocks(ring: &mut Ring, blocks_max: usize, taker: &mut dyn Taker) -> usize {
    let share = ring.share();
    let mut each = |packet: Packet<'_>| {
        taker.at(packet.ts_us);
        match segment_of(&packet) {
            // The filter in the kernel does not see it if there is a tag before the addresses.
            Ok(Some(segment)) if share.has(segment.from, segment.to) => taker.segment(&segment),
            Ok(_) => {}
            Err(Damaged) => taker.damaged(),
        }
    };
    (0..blocks_max).take_while(|_| ring.next(&mut each)).count()
}

/// A packet with a wrong checksum.
struct Damaged;

fn segment_of<'p>(packet: &Packet<'p>) -> Result<Option<Segment<'p>>, Damaged> {
    let link = Link::Packet(packet.protocol);
    if packet.is_unverified && link::has_wrong_checksum(link, packet.bytes) {
        return Err(Damaged);
    }
    Ok(link::segment(link, packet.bytes, packet.packet_bytes, packet.ts_us))
}

/// The time, µs since 1970-01-01 UTC.
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
