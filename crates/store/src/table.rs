//! Records as one Parquet file, for other programs: the columns of the record and of its origin.

use std::io::Write;

use parquet::arrow::ArrowWriter;
use tacho_record::line::Line;

use crate::columns::{COLUMNS, LinePosition, Rows, schema};
use crate::segment::{Effort, SegmentError, properties};

/// Rows that are converted at once.
const BATCH_ROWS: usize = 8192;
/// Memory of a row group, bytes.
const GROUP_BYTES: usize = 64 << 20;

/// Writes records into a Parquet file.
pub struct TableWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    rows: Rows,
    /// Indices of the columns that are written.
    columns: Vec<usize>,
    server: String,
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file. `server`: the name of the origin, in the column `server`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(target: W, server: &str) -> Result<Self, SegmentError> {
        let columns: Vec<usize> =
            (0..COLUMNS.len()).filter(|index| COLUMNS[*index].kind.is_of_record()).collect();
        let schema = schema().project(&columns)?;
        let properties = properties(Effort::Small)?;
        let writer = ArrowWriter::try_new(target, schema.into(), Some(properties))?;
        Ok(Self { writer, rows: Rows::new(), columns, server: server.to_owned() })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn push(&mut self, line: &Line<'_>) -> Result<(), SegmentError> {
        let place = LinePosition { origin: &self.server, generation: 0, file: "", offset: 0 };
        self.rows.append(place, None, None, |field| line.value(field));
        if self.rows.count() >= BATCH_ROWS { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), SegmentError> {
        let batch = self.rows.finish()?.project(&self.columns)?;
        self.writer.write(&batch)?;
        if self.writer.memory_size() > GROUP_BYTES {
            self.writer.flush()?;
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<W, SegmentError> {
        self.write()?;
        Ok(self.writer.into_inner()?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{TimestampMicrosecondType, UInt64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
    use tacho_record::Field;

    use super::*;

    #[test]
    fn records_are_read_back() {
        let mut writer = TableWriter::new(tempfile::tempfile().unwrap(), "db1").unwrap();
        let count = BATCH_ROWS as u64 + 3;
        for seq in 1..=count {
            let text = format!(
                r#"{{"v":1,"seq":{seq},"ts":"2026-11-27T10:00:00.000001+01:00","event":"statement","sql":"SELECT {seq}","tables":[{{"access":"read","db":"d","table":"t"}}]}}"#
            );
            writer.push(&Line::parse(text.as_bytes()).unwrap()).unwrap();
        }
        let file: File = writer.finish().unwrap();
        let batches = ParquetRecordBatchReader::try_new(file, 1 << 20).unwrap();
        let batches: Vec<_> = batches.map(Result::unwrap).collect();
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows as u64, count);
        let (first, last) = (&batches[0], &batches[batches.len() - 1]);
        assert_eq!(first.num_columns(), Field::ALL.len() + 1);
        let column = |name: &str| first.column_by_name(name).expect(name);
        assert_eq!(column("server").as_string::<i32>().value(0), "db1");
        assert_eq!(column("sql").as_string::<i64>().value(1), "SELECT 2");
        let ts = column("ts").as_primitive::<TimestampMicrosecondType>().value(0);
        assert_eq!(ts, 1_795_770_000_000_001);
        assert_eq!(column("tables").as_list::<i32>().value(0).len(), 1);
        let seqs = last.column_by_name("seq").unwrap().as_primitive::<UInt64Type>();
        assert_eq!(seqs.value(seqs.len() - 1), count);
    }
}
