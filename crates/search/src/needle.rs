//! Texts of which every record that is found has one, for a scan before the query.

use crate::parser::{Expr, Term};
use crate::sql::columns_of;
use crate::target::TargetKind;
use crate::value::{Pattern, Test};

/// Shorter ones are in too many texts.
const NEEDLE_BYTES_MIN: usize = 3;
/// A search for more texts than that is not scanned for.
const NEEDLES_MAX: usize = 16;

/// A text that one of the columns contains, its ASCII letters in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needle {
    /// The columns, all of them texts.
    pub columns: &'static [&'static str],
    /// The text: ASCII without the letters `i` and `k`, at least 3 bytes.
    pub text: String,
}

/// Every record that meets the condition has one of these. `None`: that cannot be said of any.
pub fn needles(expr: &Expr) -> Option<Vec<Needle>> {
    match expr {
        // One part is enough; the longest texts are in the fewest records.
        Expr::And(parts) => parts.iter().filter_map(needles).max_by_key(|all| shortest(all)),
        Expr::Or(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(needles(part)?);
            }
            (all.len() <= NEEDLES_MAX).then_some(all)
        }
        Expr::Not(_) => None,
        Expr::Term(term) => of_term(term).map(|needle| vec![needle]),
    }
}

fn shortest(needles: &[Needle]) -> usize {
    needles.iter().map(|needle| needle.text.len()).min().unwrap_or(0)
}

fn of_term(term: &Term) -> Option<Needle> {
    let is_list = term.target.is_some_and(|target| target.kind == TargetKind::Attributes);
    match &term.test {
        Test::Contains(pattern) if !is_list => {
            let text = longest_run(pattern)?.to_owned();
            Some(Needle { columns: columns_of(term), text })
        }
        _ => None,
    }
}

/// The longest run of characters that a text which contains the pattern has, too, except for the
/// case of ASCII letters. Both are compared in lower case, and of all characters that are not ASCII
/// only `İ` and the Kelvin sign become ASCII by that: `i` and `k`.
fn longest_run(pattern: &Pattern) -> Option<&str> {
    pattern.longest_run(NEEDLE_BYTES_MIN, |c| !c.is_ascii() || "iIkK".contains(c))
}

#[cfg(test)]
mod tests {
    use crate::parse;

    /// The needles of a search, each as `columns:text`.
    fn of(search: &str) -> Option<Vec<String>> {
        let needles = parse(search).unwrap().needles()?;
        let write = |it: &super::Needle| format!("{}:{}", it.columns.join(","), it.text);
        Some(needles.iter().map(write).collect())
    }

    #[test]
    fn records_that_are_found_have_one_of_the_needles() {
        let some = |all: &[&str]| Some(all.iter().map(|&it| it.to_owned()).collect());
        for (search, needles) in [
            ("x0badc0de", some(&["sql,error:x0badc0de"])),
            ("\"id = 99999999\"", some(&["sql,error:d = 99999999"])),
            ("\"a*b?c\"", some(&["sql,error:a*b?c"])),
            ("ab*cdef?gh", some(&["sql,error:cdef"])),
            ("Marke-Kaffee", some(&["sql,error:affee"])),
            ("grüße_abc", some(&["sql,error:e_abc"])),
            ("sql:abcd user:x error:uvwxyz", some(&["error:uvwxyz"])),
            ("params:abcd", some(&["params:abcd"])),
            ("sql:(abc or defg) -xyz", some(&["sql:abc", "sql:defg"])),
            ("abc (user:x or defg)", some(&["sql,error:abc"])),
        ] {
            assert_eq!(of(search), needles, "{search}");
        }
        for search in [
            "",
            "user:abcdef",
            "-abcdef",
            "not (abcdef or ghxyz)",
            "abcdef or user:x",
            "abcdef or ab",
            "kiki",
            "表表表表",
            "sql:*",
            "attributes:abcdef",
            "digest_text:abcdef",
            "table:abcdef",
        ] {
            assert_eq!(of(search), None, "{search}");
        }
        let many: Vec<String> = (100..117).map(|number| number.to_string()).collect();
        assert_eq!(of(&many.join(" or ")), None);
        assert_eq!(of(&many[1..].join(" or ")).map(|all| all.len()), Some(16));
    }
}
