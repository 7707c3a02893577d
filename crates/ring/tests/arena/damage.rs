//! Damage to an arena. The tests of `tacho-recorder` use it, too.

use std::mem::size_of;

use tacho_ring::arena::Arena;
use tacho_ring::layout::Header;

/// Writes `input` over the arena.
///
/// ```text
/// 0  u8   bit 0: first fill everything behind the header with noise
/// 1  u32  seed of the noise
/// 5  …    patches: u8 region, u16 offset, u8 length, bytes
/// ```
pub fn damage(arena: &Arena, input: &[u8]) {
    let g = *arena.geometry();
    // SAFETY: the arena's memory, which no other thread and no reference reaches meanwhile.
    let memory = unsafe { std::slice::from_raw_parts_mut(arena.base(), g.arena_bytes as usize) };
    let Some((&[flags, s0, s1, s2, s3], mut patches)) = input.split_first_chunk::<5>() else {
        return;
    };
    if flags & 1 != 0 {
        let mut random = Random(u64::from(u32::from_le_bytes([s0, s1, s2, s3])));
        for word in memory[size_of::<Header>()..].chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
    }
    while let Some((&[region, o0, o1, length], rest)) = patches.split_first_chunk::<4>() {
        let (bytes, rest) = rest.split_at(usize::from(length).min(rest.len()));
        patches = rest;
        let start = match region {
            0 => 0,
            1 => 4096,
            2 => g.names_offset,
            3 => g.sessions_offset,
            4 => g.running_offset,
            5 => g.controls_offset,
            chunk => {
                let index = u64::from(chunk - 6) % u64::from(g.chunk_count);
                g.chunks_offset + index * u64::from(g.chunk_bytes)
            }
        };
        let at = start as usize + usize::from(u16::from_le_bytes([o0, o1]));
        if let Some(place) = memory.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// Noise that is the same each time (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
