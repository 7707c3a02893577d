//! What a word or an operator is to the digest, for those who compare statements in another way
//! (`tacho_rewrite`) and have to agree with it.

use crate::block::Block;
use crate::digest::keywords::{self, Usage};
use crate::digest::kind::Kind;

/// How a word without quotes is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// As a name, and so its case counts.
    Name,
    /// As a keyword, wherever it stands.
    Keyword,
    /// As a keyword where a parenthesis follows at once, as a name elsewhere.
    Function,
}

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// How it is read.
    pub role: Role,
    /// As a keyword: an expression follows, so that a sign there belongs to a number.
    pub starts_expression: bool,
    /// It is NOT, behind which NULL is no value.
    pub is_not: bool,
}

/// Keywords of MySQL 8.0 and 9.7 that MariaDB does not have: the digest takes them for names.
const MYSQL_KEYWORDS: &[&str] = &[
    "GROUPING",
    "GROUPS",
    "JSON_VALUE",
    "LATERAL",
    "NULLS",
    "PERSIST",
    "PERSIST_ONLY",
    "QUALIFY",
    "RESPECT",
    "TABLESAMPLE",
];

/// Whether MySQL has a keyword that is a name to the digest.
pub fn is_mysql_keyword(word: &[u8]) -> bool {
    MYSQL_KEYWORDS.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

/// What a word is.
pub fn look_up(word: &[u8]) -> Word {
    let found = keywords::find_word(Block::at(word, 0), word).filter(|_| !word.is_empty());
    let role = match found.map(keywords::Keyword::usage) {
        None => Role::Name,
        Some(Usage::Always | Usage::Null | Usage::AlsoCall) => Role::Keyword,
        Some(Usage::Call | Usage::Another) => Role::Function,
    };
    let kind = found.map_or(Kind::Other, |keyword| keyword.kind);
    Word { role, starts_expression: kind.starts_expression(), is_not: kind == Kind::Not }
}

/// Whether an expression follows this operator, bracket or comma.
pub fn operator_starts_expression(operator: &[u8]) -> bool {
    match *operator {
        [] => false,
        // There is none of several bytes that stands behind an expression.
        [byte] => byte != b')' && Kind::of_byte(byte).starts_expression(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_the_digest_takes_them_for() {
        let role = |word: &str| look_up(word.as_bytes()).role;
        assert_eq!(["select", "NULL", "CURRENT_DATE"].map(role), [Role::Keyword; 3]);
        assert_eq!(["Count", "session_user"].map(role), [Role::Function; 2]);
        assert_eq!(["", "c", "customer", "\u{e9}"].map(role), [Role::Name; 4]);
        let starts = |word: &str| look_up(word.as_bytes()).starts_expression;
        assert!(starts("where") && starts("NOT") && !starts("FORCE") && !starts("c"));
        assert!(look_up(b"not").is_not && !look_up(b"and").is_not);
    }

    #[test]
    fn keywords_of_mysql_are_no_others() {
        for word in MYSQL_KEYWORDS {
            assert_eq!(look_up(word.as_bytes()).role, Role::Name, "{word}");
        }
        assert!(is_mysql_keyword(b"lateral") && !is_mysql_keyword(b"select"));
    }

    #[test]
    fn operators_are_what_the_digest_takes_them_for() {
        for operator in ["=", ",", "(", "<=>", "-", ":="] {
            assert!(operator_starts_expression(operator.as_bytes()), "{operator}");
        }
        for operator in [")", ".", ";", "", "@"] {
            assert!(!operator_starts_expression(operator.as_bytes()), "{operator}");
        }
    }
}
