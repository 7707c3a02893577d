//! Values that follow from the value of another column in the same line: the user from the
//! connection, the digest from the template of the statement. The prediction is the last value that
//! came with the same key.

use std::collections::HashMap;

use crate::numbers::{unzigzag, zigzag};

/// A key for each row, as a small number. 0: the row has none.
pub(crate) struct RowKeys {
    of_row: Vec<u32>,
    count: usize,
}

impl RowKeys {
    /// The keys of all rows from the values that some rows have. The last value of a row counts.
    pub(crate) fn new(rows: usize, value_rows: &[u32], values: &[u64]) -> Self {
        let mut of_row = vec![0; rows];
        let mut known = HashMap::new();
        for (row, value) in value_rows.iter().zip(values) {
            let next = known.len() as u32 + 1;
            of_row[*row as usize] = *known.entry(*value).or_insert(next);
        }
        Self { of_row, count: known.len() + 1 }
    }

    /// How many different keys there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn of(&self, row: u32) -> usize {
        self.of_row[row as usize] as usize
    }
}

/// Codes as symbols: 0 is the predicted one, others are one higher.
pub(crate) fn predicted(keys: &RowKeys, rows: &[u32], codes: &[u64]) -> Vec<u64> {
    let mut last = vec![0; keys.count];
    let symbol = |(row, code): (&u32, &u64)| {
        let last = &mut last[keys.of(*row)];
        if *last == code + 1 {
            return 0;
        }
        *last = code + 1;
        *last
    };
    rows.iter().zip(codes).map(symbol).collect()
}

/// The codes again. Those without a prediction are `u64::MAX`.
pub(crate) fn from_predicted(keys: &RowKeys, rows: &[u32], symbols: &mut [u64]) {
    let mut last = vec![0_u64; keys.count];
    for (row, symbol) in rows.iter().zip(symbols) {
        let last = &mut last[keys.of(*row)];
        if *symbol != 0 {
            *last = *symbol;
        }
        *symbol = last.wrapping_sub(1);
    }
}

/// Numbers as differences to the last one with the same key.
pub(crate) fn differences(keys: &RowKeys, rows: &[u32], values: &[u64]) -> Vec<u64> {
    let mut last = vec![0; keys.count];
    let difference = |(row, value): (&u32, &u64)| {
        let last = std::mem::replace(&mut last[keys.of(*row)], *value);
        zigzag(last, *value)
    };
    rows.iter().zip(values).map(difference).collect()
}

/// The numbers again.
pub(crate) fn from_differences(keys: &RowKeys, rows: &[u32], values: &mut [u64]) {
    let mut last = vec![0; keys.count];
    for (row, value) in rows.iter().zip(values) {
        let last = &mut last[keys.of(*row)];
        *last = unzigzag(*last, *value);
        *value = *last;
    }
}

/// Numbers as differences to the one before.
pub(crate) fn deltas(values: &[u64]) -> impl Iterator<Item = u64> + Clone {
    let before = std::iter::once(&0).chain(values);
    before.zip(values).map(|(before, value)| zigzag(*before, *value))
}

/// The numbers again.
pub(crate) fn from_deltas(values: &mut [u64]) {
    let mut last = 0;
    for value in values {
        last = unzigzag(last, *value);
        *value = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_back() {
        let (rows, values) = ([0, 1, 1, 3, 4], [7, 7, 9, 7, 9]);
        let keys = RowKeys::new(5, &[0, 1, 2, 4], &[50, 60, 50, 60]);
        assert_eq!((keys.count(), &keys.of_row[..]), (3, &[1, 2, 1, 0, 2][..]));
        let mut symbols = predicted(&keys, &rows, &values);
        assert_eq!(symbols, [8, 8, 10, 8, 0]);
        from_predicted(&keys, &rows, &mut symbols);
        assert_eq!(symbols, values);
        let mut numbers = differences(&keys, &rows, &values);
        from_differences(&keys, &rows, &mut numbers);
        assert_eq!(numbers, values);
        let mut numbers: Vec<u64> = deltas(&values).collect();
        assert_eq!(numbers[0], 14);
        from_deltas(&mut numbers);
        assert_eq!(numbers, values);
    }

    #[test]
    fn a_prediction_that_is_not_there_is_no_code() {
        let keys = RowKeys::new(1, &[], &[]);
        let mut symbols = [0];
        from_predicted(&keys, &[0], &mut symbols);
        assert_eq!(symbols, [u64::MAX]);
    }
}
