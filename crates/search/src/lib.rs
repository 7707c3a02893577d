//! Zone: outside.
//!
//! The search language of the hub: a text becomes a condition in SQL over the view `records`.
//!
//! ```
//! let search = tacho_search::parse("user:app rows_sent:>1e5 -host:10.0.* \"credit card\"")?;
//! assert!(search.condition().starts_with("\"user\" = 'app' AND \"rows_sent\" > 100000"));
//! # Ok::<(), tacho_search::SearchError>(())
//! ```
//!
//! The language is specified in `docs/specs/search.md`. Nothing of the text gets into the SQL
//! except numbers that were read, and texts as literals with doubled quotes.
//!
//! | module | contents |
//! |---|---|
//! | `lexer` | words, quoted texts, brackets |
//! | `parser` | the tree |
//! | `target` | fields and their kinds, from the table of fields in `tacho_record` |
//! | `digest_text` | patterns for the dictionary of digests |
//! | `value` | numbers, durations, times, patterns |
//! | `sql` | the condition |
//! | `needle` | texts of which every record that is found has one |

mod digest_text;
mod lexer;
mod needle;
mod parser;
mod sql;
mod target;
mod value;

use std::collections::BTreeSet;

pub use digest_text::DigestPattern;
pub use needle::Needle;
pub use parser::{Expr, Term};
pub use target::{Target, TargetKind, targets};
pub use value::{Comparison, Pattern, Test};

/// A longer text is refused, in bytes.
pub const TEXT_BYTES_MAX: usize = 8 << 10;
/// Brackets and negations within each other.
pub const DEPTH_MAX: usize = 50;

/// Why a text is not a search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}, at character {}", .position + 1)]
pub struct SearchError {
    /// What is wrong there.
    pub message: String,
    /// What could be there instead; may be empty.
    pub expected: String,
    /// Number of characters before the place.
    pub position: usize,
    /// Number of characters that are wrong.
    pub length: usize,
}

/// A search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Its tree. `None`: the text is empty, everything is found.
    pub expr: Option<Expr>,
}

impl Search {
    /// The condition in SQL.
    pub fn condition(&self) -> String {
        self.expr.as_ref().map_or_else(|| "true".to_owned(), sql::condition)
    }

    /// The columns of the view that the condition reads.
    pub fn columns(&self) -> BTreeSet<&'static str> {
        let mut columns = BTreeSet::new();
        if let Some(expr) = &self.expr {
            expr.each(&mut |term| columns.extend(sql::columns_of(term)));
        }
        columns
    }

    /// Texts of which every record that is found has one, so that others need not be searched.
    /// `None`: that cannot be said of any.
    pub fn needles(&self) -> Option<Vec<Needle>> {
        self.expr.as_ref().and_then(needle::needles)
    }

    /// Whether it has a `digest_text` that was not [looked up](Self::look_up).
    pub fn needs_look_up(&self) -> bool {
        let mut needs = false;
        if let Some(expr) = &self.expr {
            expr.each(&mut |term| needs |= matches!(term.test, Test::DigestText(_)));
        }
        needs
    }

    /// Replaces each `digest_text` by the digests whose texts are like it. The texts are in a
    /// dictionary, so `find` looks them up there; a condition without that is an error in SQL.
    ///
    /// # Errors
    /// Those of `find`.
    pub fn look_up<E>(
        &mut self,
        mut find: impl FnMut(&DigestPattern) -> Result<Vec<String>, E>,
    ) -> Result<(), E> {
        let Some(expr) = &mut self.expr else { return Ok(()) };
        expr.try_each_mut(&mut |term| {
            if let Test::DigestText(pattern) = &term.test {
                term.test = Test::Digests(find(pattern)?);
            }
            Ok(())
        })
    }

    /// The terms that every record that is found meets: those that no `or` or `not` has in it.
    pub fn required(&self) -> Vec<&Term> {
        match &self.expr {
            Some(Expr::Term(term)) => vec![term],
            Some(Expr::And(parts)) => parts
                .iter()
                .filter_map(|part| match part {
                    Expr::Term(term) => Some(term),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Reads a search.
///
/// # Errors
/// The first thing that is wrong, and where.
pub fn parse(text: &str) -> Result<Search, SearchError> {
    parser::parse(text).map(|expr| Search { expr })
}
