//! `tacho pmp diff`: two profiles side by side.

use std::fs;
use std::path::Path;

use tacho_pmp::diff::{self, Row};
use tacho_pmp::flame;
use tacho_pmp::folded::{self, Folded};

use super::args::DiffArgs;
use super::{FOLDED, PmpError};
use crate::say;

/// Smaller changes are omitted.
const CHANGE_MIN_PERCENT: f64 = 0.05;

/// Runs `tacho pmp diff`.
///
/// # Errors
/// A profile cannot be read.
pub fn run(args: &DiffArgs) -> Result<(), PmpError> {
    let before = read(&args.before)?;
    let after = read(&args.after)?;
    say::result(&format!("before: {}, {} samples", args.before.display(), diff::total(&before)))?;
    say::result(&format!("after:  {}, {} samples", args.after.display(), diff::total(&after)))?;
    say::result("")?;
    say::result(" before    after   change  function (share of the samples that have it)")?;
    show(&diff::by_function(&before, &after), args.top, |name| name.to_owned())?;
    say::result("")?;
    say::result(" before    after   change  stack, innermost function first")?;
    show(&diff::by_stack(&before, &after), args.top, |stack| {
        stack.rsplit(';').collect::<Vec<_>>().join(",")
    })?;
    if let Some(path) = &args.output {
        let title = format!("{} against {}", args.after.display(), args.before.display());
        let svg = flame::difference_svg(&title, &before, &after)?;
        fs::write(path, svg).map_err(|error| PmpError::File { path: path.clone(), error })?;
        say::result("")?;
        say::result(&format!("Flame graph: {}", path.display()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Folded, PmpError> {
    let path = if path.is_dir() { path.join(FOLDED) } else { path.to_owned() };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Err(PmpError::File { path, error }),
    };
    folded::parse(&text).map_err(|error| PmpError::Folded { path, error })
}

fn show(rows: &[Row], top: usize, name: impl Fn(&str) -> String) -> Result<(), PmpError> {
    let mut shown =
        rows.iter().filter(|row| row.change().abs() >= CHANGE_MIN_PERCENT).take(top).peekable();
    if shown.peek().is_none() {
        say::result("(no difference)")?;
    }
    for row in shown {
        say::result(&format!(
            "{:>5.1} %  {:>5.1} %  {:>+6.1}  {}",
            row.before_percent,
            row.after_percent,
            row.change(),
            name(&row.name)
        ))?;
    }
    Ok(())
}
