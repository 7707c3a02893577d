//! Histograms as text, `bucket:count` separated by spaces: how the query process answers.

use std::fmt;
use std::str::FromStr;

use crate::{Histogram, Malformed};

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (at, (bucket, count)) in self.pairs().enumerate() {
            let separator = if at == 0 { "" } else { " " };
            write!(f, "{separator}{bucket}:{count}")?;
        }
        Ok(())
    }
}

impl FromStr for Histogram {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| Malformed);
        let mut histogram = Self::default();
        for pair in text.split(' ').filter(|pair| !pair.is_empty()) {
            let (bucket, count) = pair.split_once(':').ok_or(Malformed)?;
            histogram.add_bucket(number(bucket)?, number(count)?)?;
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_buckets_that_are_not_empty() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.to_string(), "");
        for time_us in [3, 3, 40] {
            histogram.add(time_us);
        }
        assert_eq!(histogram.to_string(), "3:2 36:1");
        assert_eq!("3:2 36:1".parse(), Ok(histogram));
        for wrong in ["3", "3:", ":1", "592:1", "3:2,4:1", "3:-1"] {
            assert_eq!(wrong.parse::<Histogram>(), Err(Malformed), "{wrong}");
        }
    }
}
