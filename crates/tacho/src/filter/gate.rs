//! Decides about lines as they are in a file, and parses of each only what the decision needs.
//!
//! A line that does not have the form in which the recorder writes is parsed whole; a broken one is
//! an error, whether the filter would have excluded it or not.

use tacho_logdir::read::reader::Placed;
use tacho_record::line::members::{FieldSet, MemberReader};
use tacho_record::{Field, Line};

use super::{Filter, Fit};
use crate::line_limit;
use crate::view::{NotTables, Partial, View};

/// A filter, and the reader of what it needs.
#[derive(Debug)]
pub struct Gate {
    /// The filter.
    pub filter: Filter,
    reader: MemberReader,
}

impl Gate {
    /// Also reads some fields for [`Gate::ask`].
    pub fn new(filter: Filter, also: &[Field]) -> Self {
        let mut fields: FieldSet = filter.fields();
        fields.extend(also.iter().copied());
        Self { filter, reader: MemberReader::new(fields) }
    }

    /// Whether a line passes.
    ///
    /// # Errors
    /// It is broken, or too long.
    pub fn judge(&mut self, placed: Placed<'_>) -> Result<Fit, String> {
        self.ask(placed, |filter, line| filter.judge(line))
    }

    /// Asks a line that has the fields that the filter needs, and those of [`Gate::new`].
    ///
    /// # Errors
    /// It is broken, or too long.
    pub fn ask<T>(
        &mut self,
        placed: Placed<'_>,
        question: impl Fn(&Filter, &dyn View) -> Result<T, NotTables>,
    ) -> Result<T, String> {
        if placed.is_too_long {
            return Err(line_limit::too_long());
        }
        if let Some(line) = self.reader.read(placed.bytes).and_then(Partial::of)
            && let Ok(answer) = question(&self.filter, &line)
        {
            return Ok(answer);
        }
        let line = Line::parse(placed.bytes)?;
        question(&self.filter, &line).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::FilterArgs;
    use tacho_logdir::read::Window;

    fn judge(args: &[&str], line: &str) -> Result<Fit, String> {
        let args = super::super::tests::args(args);
        let mut gate = Gate::new(Filter::new(&args, Window::default()), &[]);
        gate.judge(Placed { offset: 0, bytes: line.as_bytes(), is_too_long: false })
    }

    #[test]
    fn broken_lines_are_errors_even_if_they_are_not_wanted() {
        let line = |rest: &str| {
            format!(r#"{{"v":1,"seq":1,"ts":"2026-11-21T10:00:00Z","event":"statement"{rest}}}"#)
        };
        assert_eq!(judge(&["--user", "a"], &line(r#","user":"a""#)), Ok(Fit::Yes));
        assert_eq!(judge(&["--user", "a"], &line(r#","user":"b""#)), Ok(Fit::No));
        // Not as the recorder writes, but valid.
        assert_eq!(judge(&["--user", "a"], &line(r#", "user": "\u0061""#)), Ok(Fit::Yes));
        assert!(judge(&["--user", "a"], &line(r#","user":"b"#)).is_err());
        assert!(judge(&["--user", "a"], "{}").is_err());
        // The content of a list is only checked if it can decide.
        let tables = line(r#","user":"a","tables":["d","t"]"#);
        assert!(judge(&["--table", "d.t"], &tables).unwrap_err().contains("column"), "{tables}");
        assert_eq!(judge(&["--table", "d.t", "--user", "b"], &tables), Ok(Fit::No));
        assert_eq!(judge(&["--table", "d.other"], &tables), Ok(Fit::No));
        let args = FilterArgs::default();
        let mut gate = Gate::new(Filter::new(&args, Window::default()), &[]);
        let too_long = Placed { offset: 0, bytes: &[], is_too_long: true };
        assert!(gate.judge(too_long).unwrap_err().contains("--max-line-size"));
    }
}
