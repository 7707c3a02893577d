//! Patterns for the dictionary of digests.
//!
//! The text of a digest has a blank between tokens, and names in backticks: "FROM `shop` . `card`".
//! Users type neither. So blanks and backticks do not count, and the case does not count.

use crate::value::{Pattern, Piece};

/// A text, maybe with wildcards, that is looked for within the texts of digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestPattern {
    /// What is between the wildcards `*`; `None` is any one character.
    runs: Vec<Vec<Option<char>>>,
}

fn simple(text: &str) -> impl Iterator<Item = char> + '_ {
    let counts = |c: &char| !c.is_whitespace() && *c != '`';
    text.chars().filter(counts).flat_map(char::to_lowercase)
}

impl DigestPattern {
    /// `None`: nothing of the pattern counts.
    pub fn new(pattern: &Pattern) -> Option<Self> {
        let mut runs = vec![Vec::new()];
        for piece in &pattern.pieces {
            match (piece, runs.last_mut()) {
                (Piece::Text(text), Some(run)) => run.extend(simple(text).map(Some)),
                (Piece::One, Some(run)) => run.push(None),
                _ => runs.push(Vec::new()),
            }
        }
        runs.retain(|run| !run.is_empty());
        (!runs.is_empty()).then_some(Self { runs })
    }

    /// Whether the text of a digest contains it.
    pub fn is_in(&self, text: &str) -> bool {
        let text: Vec<char> = simple(text).collect();
        let mut rest = &text[..];
        // The first place of each run leaves the most for those behind it.
        self.runs.iter().all(|run| {
            let fits = |window: &[char]| {
                run.iter().zip(window).all(|(wanted, c)| wanted.is_none_or(|wanted| wanted == *c))
            };
            match rest.windows(run.len()).position(fits) {
                Some(at) => {
                    rest = &rest[at + run.len()..];
                    true
                }
                None => false,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_backticks_and_case_do_not_count() {
        let text = "SELECT `Name` FROM `shop` . `card` WHERE `id` = ?";
        let is_in = |pattern: &str| {
            DigestPattern::new(&Pattern::read(pattern)).is_some_and(|it| it.is_in(text))
        };
        for found in [
            "from shop.card",
            "SELECT name",
            "`card`",
            "where id=\\?",
            "select*where",
            "s?op",
            "*name*card*",
            "= ?",
        ] {
            assert!(is_in(found), "{found}");
        }
        for other in
            ["from card", "card*shop", "id = 5", "?????????????????????????????????????????"]
        {
            assert!(!is_in(other), "{other}");
        }
        assert_eq!(DigestPattern::new(&Pattern::read("` *")), None);
        assert_eq!(DigestPattern::new(&Pattern::exact("a*")).map(|it| it.is_in("a")), Some(false));
    }
}
