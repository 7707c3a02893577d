//! Folded stacks: `outermost;…;innermost count`, the input of flame graph tools.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::profile::Profile;

/// Stacks and their number of samples.
pub type Folded = BTreeMap<String, u64>;

/// The lowest frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The function that started the thread.
    Thread,
    /// The state of the thread: `running`, `lock`, …
    ThreadState,
}

/// A line that is not a folded stack.
#[derive(Debug, thiserror::Error)]
#[error("line {number} is not a folded stack: {text:?}")]
pub struct FoldedError {
    number: usize,
    text: String,
}

/// Folds a profile.
pub fn fold(profile: &Profile, with_idle: bool, root: Root) -> Folded {
    let mut folded = Folded::new();
    for entry in profile.seen(with_idle) {
        let state = (root == Root::ThreadState).then(|| entry.state.name().to_owned());
        // `;` separates frames; functions of C, C++ and Rust have none in their names.
        let frames = profile.stack(entry).rev().map(|frame| frame.function.replace(';', ":"));
        let names: Vec<String> = state.into_iter().chain(frames).collect();
        *folded.entry(names.join(";")).or_default() += entry.count;
    }
    folded
}

/// One line per stack.
pub fn text(folded: &Folded) -> String {
    let mut text = String::new();
    for (stack, count) in folded {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{stack} {count}");
    }
    text
}

/// Parses the output of [`text`], or of another profiler.
///
/// # Errors
/// A line has no count.
pub fn parse(text: &str) -> Result<Folded, FoldedError> {
    let mut folded = Folded::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let parsed = line.trim_end().rsplit_once(' ').and_then(|(stack, count)| {
            let count: u64 = count.parse().ok()?;
            (!stack.is_empty()).then_some((stack, count))
        });
        let Some((stack, count)) = parsed else {
            return Err(FoldedError { number: index + 1, text: line.chars().take(80).collect() });
        };
        *folded.entry(stack.to_owned()).or_default() += count;
    }
    Ok(folded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::Frame;
    use crate::state::ThreadState;

    #[test]
    fn the_outermost_comes_first() {
        let mut profile = Profile::new(1, "x");
        let mut frame = |function: &str| {
            profile.frame(Frame {
                function: function.into(),
                module: "x".into(),
                is_named: true,
                is_program: true,
            })
        };
        let stack = vec![frame("inner"), frame("operator new(unsigned long)"), frame("main")];
        let waiting = profile.entry(stack.clone(), ThreadState::Lock, "t", |_, _| false);
        let running = profile.entry(stack, ThreadState::Running, "t", |_, _| false);
        let idle = profile.entry(vec![], ThreadState::Sleep, "t", |_, _| true);
        for (entry, count) in [(waiting, 2), (running, 3), (idle, 4)] {
            profile.entries[entry].count = count;
        }
        let folded = fold(&profile, false, Root::Thread);
        assert_eq!(text(&folded), "main;operator new(unsigned long);inner 5\n");
        assert_eq!(parse(&text(&folded)).expect("the same"), folded);
        let by_state = text(&fold(&profile, true, Root::ThreadState));
        let expected = "lock;main;operator new(unsigned long);inner 2\n\
                        running;main;operator new(unsigned long);inner 3\nsleep 4\n";
        assert_eq!(by_state, expected);
    }

    #[test]
    fn a_line_without_a_count_is_named() {
        let error = parse("a;b 1\n\na;c\n").expect_err("no count");
        assert_eq!(error.to_string(), "line 3 is not a folded stack: \"a;c\"");
        assert_eq!(parse("a;b 1\na;b 2\n").expect("two lines")["a;b"], 3);
    }
}
