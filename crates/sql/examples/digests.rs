//! Prints digest and text of each statement on standard input, for `scripts/digest-differences.py`.
//! Statements and output are NUL-terminated.

use std::io::{self, Read, Write};

use tacho_sql::digest::Normaliser;
use tacho_sql::grouping::Grouping;
use tacho_sql::{High, Mode};

fn main() -> io::Result<()> {
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut normaliser = Normaliser::default();
    let mode = Mode::new(Grouping::Bytes, High::LETTERS);
    for sql in input.split_inclusive(|byte| *byte == 0) {
        let sql = sql.strip_suffix(&[0]).unwrap_or(sql);
        let normalised = normaliser.normalise(sql, mode, usize::MAX);
        write!(output, "{} ", normalised.digest)?;
        output.write_all(normalised.text)?;
        output.write_all(&[0])?;
    }
    output.flush()
}
