//! The meaning of a word or an operator for the digest, for code that compares statements in
//! another way (`tacho_rewrite`) and must agree with it.

use crate::block::Block;
use crate::digest::keywords::{self, Usage};
use crate::digest::kind::Kind;

/// How a word without quotes is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// As a name, so its case matters.
    Name,
    /// As a keyword, everywhere.
    Keyword,
    /// As a keyword if a parenthesis follows immediately, otherwise as a name.
    Function,
}

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// How it is read.
    pub role: Role,
    /// As a keyword: an expression follows, so a sign there belongs to a number.
    pub starts_expression: bool,
    /// It is NOT, after which NULL is not a value.
    pub is_not: bool,
}

/// Keywords of MySQL 8.0 and 9.7 that MariaDB does not have: the digest treats them as names.
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

/// Whether MySQL has a keyword that is a name for the digest.
pub fn is_mysql_keyword(word: &[u8]) -> bool {
    MYSQL_KEYWORDS.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

/// The meaning of a word.
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
        // No operator of several bytes follows an expression.
        [byte] => byte != b')' && Kind::of_byte(byte).starts_expression(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_meaning_in_the_digest() {
        let role = |word: &str| look_up(word.as_bytes()).role;
        assert_eq!(["select", "NULL", "CURRENT_DATE"].map(role), [Role::Keyword; 3]);
        assert_eq!(["Count", "session_user"].map(role), [Role::Function; 2]);
        assert_eq!(["", "c", "customer", "\u{e9}"].map(role), [Role::Name; 4]);
        let starts = |word: &str| look_up(word.as_bytes()).starts_expression;
        assert!(starts("where") && starts("NOT") && !starts("FORCE") && !starts("c"));
        assert!(look_up(b"not").is_not && !look_up(b"and").is_not);
    }

    #[test]
    fn keywords_of_mysql_are_not_keywords_of_mariadb() {
        for word in MYSQL_KEYWORDS {
            assert_eq!(look_up(word.as_bytes()).role, Role::Name, "{word}");
        }
        assert!(is_mysql_keyword(b"lateral") && !is_mysql_keyword(b"select"));
    }

    #[test]
    fn operators_have_their_meaning_in_the_digest() {
        for operator in ["=", ",", "(", "<=>", "-", ":="] {
            assert!(operator_starts_expression(operator.as_bytes()), "{operator}");
        }
        for operator in [")", ".", ";", "", "@"] {
            assert!(!operator_starts_expression(operator.as_bytes()), "{operator}");
        }
    }
}
