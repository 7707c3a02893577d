//! Histograms in few bytes: for each bucket that is not empty, how much it is above the one before,
//! and its count, as varints (LEB128).

use crate::{Histogram, Malformed};

/// Appends a histogram: its buckets in strictly ascending order, and the counts.
pub fn encode(pairs: impl Iterator<Item = (u16, u64)>, out: &mut Vec<u8>) {
    let mut last = 0;
    for (bucket, count) in pairs {
        debug_assert!(bucket >= last, "in ascending order");
        write_varint(out, u64::from(bucket - last));
        write_varint(out, count);
        last = bucket;
    }
}

fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7F);
        if bits << shift >> shift != bits {
            return Err(Malformed);
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Malformed)
}

impl Histogram {
    /// Adds a histogram that was [encoded](encode).
    ///
    /// # Errors
    /// If it is none. A part of it may have been added.
    pub fn add_encoded(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        let mut bucket = 0_u64;
        while !bytes.is_empty() {
            bucket = bucket.checked_add(take_varint(&mut bytes)?).ok_or(Malformed)?;
            self.add_bucket(bucket, take_varint(&mut bytes)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_as_specified() {
        let mut bytes = Vec::new();
        encode([(0, 1), (3, 127), (300, 128), (591, u64::MAX)].into_iter(), &mut bytes);
        let max = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
        let wanted: &[u8] = &[0, 1, 3, 127, 0xA9, 2, 0x80, 1, 0xA3, 2];
        assert_eq!(bytes, [wanted, &max].concat());
    }

    #[test]
    fn malformed_bytes_are_refused() {
        let too_large = [0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2];
        let too_long = [0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0];
        let cases: [&[u8]; 6] =
            [&[1], &[1, 0x80], &[0xD0, 4, 1], &too_large, &too_long, &[0xFF; 40]];
        for bytes in cases {
            assert_eq!(Histogram::default().add_encoded(bytes), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(Histogram::default().add_encoded(&[]), Ok(()));
    }

    proptest! {
        #[test]
        fn bytes_give_the_histogram_back(times in prop::collection::vec(any::<u64>(), 0..100)) {
            let mut histogram = Histogram::default();
            times.iter().for_each(|&time_us| histogram.add(time_us));
            let mut bytes = Vec::new();
            encode(histogram.pairs(), &mut bytes);
            let mut read = Histogram::default();
            read.add_encoded(&bytes).unwrap();
            prop_assert_eq!(&read, &histogram);
            prop_assert_eq!(histogram.to_string().parse::<Histogram>().unwrap(), histogram);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Histogram::default().add_encoded(&bytes);
        }
    }
}
