//! Limits that can only shrink.
//!
//! A check that the tree does not meet has a file in `ratchets/`: one line for each place, with the
//! size that it has today. A larger size fails at once. A smaller one fails, too, until the limit
//! is lowered: otherwise the place could grow again unnoticed. `TIDY_BLESS=1` lowers limits and
//! removes those that no place needs any more; it never raises or adds one. To move code to
//! another file with its exception, move the line in the ratchet file, too. After a merge of many
//! changes delete the ratchet file: `TIDY_BLESS=1` then writes a new one, whose difference shows
//! what has grown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::Extent;
use crate::changed::Changed;

/// The limits of one check.
pub struct Ratchet {
    path: PathBuf,
    /// How the file is named in a message.
    name: String,
    bless: bool,
}

type Limits = BTreeMap<String, usize>;

impl Ratchet {
    /// The limits in `ratchets/NAME.txt`.
    pub fn new(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("ratchets");
        Self::at(&directory.join(format!("{name}.txt")), std::env::var_os("TIDY_BLESS").is_some())
    }

    fn at(path: &Path, bless: bool) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self { path: path.to_path_buf(), name: format!("crates/tidy/ratchets/{name}"), bless }
    }

    /// What is wrong, one message a line; nothing if every place has exactly the size of its limit.
    pub fn compare(&self, places: &[Extent], changed: &Changed) -> Vec<String> {
        let sizes: Limits = places.iter().map(|place| (place.name.clone(), place.size)).collect();
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let mut limits = match parse(&text) {
            Ok(limits) => limits,
            Err(line) => return vec![format!("{}:{line}: not `NUMBER PLACE`", self.name)],
        };
        if self.bless {
            limits = if self.path.exists() { lower(&limits, &sizes) } else { sizes.clone() };
            std::fs::write(&self.path, format(&limits)).expect("cannot write a ratchet file");
        }
        let mut messages = Vec::new();
        for place in places {
            let limit = limits.get(&place.name).copied().unwrap_or(0);
            if place.size > limit {
                for finding in changed.first(&place.findings) {
                    messages.push(finding.to_string());
                }
                messages.push(format!(
                    "{}: {} has {}, the limit is {limit}",
                    self.name, place.name, place.size
                ));
            }
        }
        for (index, (name, limit)) in limits.iter().enumerate() {
            let size = sizes.get(name).copied().unwrap_or(0);
            if size < *limit {
                messages.push(format!(
                    "{}:{}: {name} has {size} now, not {limit}: run `TIDY_BLESS=1 cargo test -p \
                     tacho-tidy`, so that it cannot grow again",
                    self.name,
                    index + 1
                ));
            }
        }
        messages
    }
}

/// The limits of a ratchet file, or the number of the line that is none.
fn parse(text: &str) -> Result<Limits, usize> {
    let limit = |(index, line): (usize, &str)| {
        let (number, name) = line.split_once(' ').ok_or(index + 1)?;
        Ok((name.to_owned(), number.parse().map_err(|_| index + 1)?))
    };
    text.lines().enumerate().map(limit).collect()
}

fn format(limits: &Limits) -> String {
    limits.iter().fold(String::new(), |mut text, (name, limit)| {
        let _ = writeln!(text, "{limit} {name}");
        text
    })
}

fn lower(limits: &Limits, sizes: &Limits) -> Limits {
    let lowered = |(name, limit): (&String, &usize)| {
        let size = sizes.get(name)?;
        Some((name.clone(), *size.min(limit)))
    };
    limits.iter().filter_map(lowered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;

    fn place(name: &str, size: usize) -> Extent {
        let what = format!("{size} lines");
        let finding = Finding { path: name.to_owned(), line: 7, what, why: "too long" };
        Extent { name: name.to_owned(), size, findings: vec![finding] }
    }

    fn compare(file: &Path, bless: bool, places: &[Extent]) -> Vec<String> {
        Ratchet::at(file, bless).compare(places, &Changed::default())
    }

    #[test]
    fn larger_new_and_smaller_places_fail() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.txt");
        std::fs::write(&file, "3 a\n3 b\n3 c\n").unwrap();
        let found = compare(&file, false, &[place("a", 4), place("b", 3), place("new", 1)]);
        assert_eq!(
            found,
            [
                "a:7: 4 lines: too long",
                "crates/tidy/ratchets/x.txt: a has 4, the limit is 3",
                "new:7: 1 lines: too long",
                "crates/tidy/ratchets/x.txt: new has 1, the limit is 0",
                "crates/tidy/ratchets/x.txt:3: c has 0 now, not 3: run `TIDY_BLESS=1 cargo test -p \
                 tacho-tidy`, so that it cannot grow again",
            ]
        );
    }

    #[test]
    fn blessing_lowers_and_never_raises() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.txt");
        std::fs::write(&file, "3 a\n3 b\n3 c\n").unwrap();
        let places = [place("a", 4), place("b", 2), place("new", 1)];
        assert_eq!(compare(&file, true, &places).len(), 4);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "3 a\n2 b\n");
    }

    #[test]
    fn blessing_without_a_file_takes_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.txt");
        let places = [place("a", 4)];
        assert_eq!(compare(&file, true, &places), [""; 0]);
        assert_eq!(compare(&file, false, &places), [""; 0]);
    }

    #[test]
    fn a_line_that_is_no_limit_is_refused() {
        assert_eq!(parse("3 a\nb\n"), Err(2));
        assert_eq!(parse("3 a\nx b\n"), Err(2));
    }
}
