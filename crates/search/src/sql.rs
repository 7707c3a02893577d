//! The condition in SQL, for DuckDB.

use crate::parser::{Expr, Term};
use crate::target::TargetKind;
use crate::value::{Comparison, Pattern, Piece, Test};

/// The columns that a term reads.
pub fn columns_of(term: &Term) -> &'static [&'static str] {
    term.target.map_or(TEXT_COLUMNS, |target| target.columns)
}

/// Shorter runs are in too many texts.
const RUN_BYTES_MIN: usize = 3;

/// Columns in which a text without a field is looked for.
const TEXT_COLUMNS: &[&str] = &["sql", "error"];

/// The condition of an expression.
pub fn condition(expr: &Expr) -> String {
    match expr {
        Expr::And(parts) => joined(parts, " AND "),
        Expr::Or(parts) => joined(parts, " OR "),
        // A record without the field is not one that has the value.
        Expr::Not(inner) => format!("({}) IS NOT TRUE", condition(inner)),
        Expr::Term(term) => term_condition(term),
    }
}

fn joined(parts: &[Expr], operator: &str) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Expr::And(_) | Expr::Or(_) => format!("({})", condition(part)),
            other => condition(other),
        })
        .collect();
    parts.join(operator)
}

fn term_condition(term: &Term) -> String {
    let columns = columns_of(term);
    let kind = term.target.map(|target| &target.kind);
    let each: Vec<String> =
        columns.iter().map(|column| column_condition(&name(column), kind, &term.test)).collect();
    match &each[..] {
        [one] => one.clone(),
        many => format!("({})", many.join(" OR ")),
    }
}

fn column_condition(column: &str, kind: Option<&TargetKind>, test: &Test) -> String {
    match test {
        Test::Present => format!("{column} IS NOT NULL"),
        Test::Numbers(all) => compared(all, |comparison, number| {
            // Errors that did not happen are missing, which counts as 0.
            match (comparison, number) {
                (Comparison::Equal, 0) if column == "\"errno\"" => format!("{column} IS NULL"),
                _ => format!("{column} {} {number}", comparison.operator()),
            }
        }),
        Test::Times(all) => compared(all, |comparison, time| {
            format!("{column} {} TIMESTAMPTZ {}", comparison.operator(), literal(time))
        }),
        Test::Flag(true) => column.to_owned(),
        Test::Flag(false) => format!("{column} IS NOT TRUE"),
        Test::Like(pattern) => like(column, pattern),
        Test::Contains(pattern) if kind == Some(&TargetKind::Attributes) => {
            let (key, value) = (contains("a.\"key\"", pattern), contains("a.\"value\"", pattern));
            format!("len(list_filter({column}, lambda a: {key} OR {value})) > 0")
        }
        Test::Contains(pattern) => contains(column, pattern),
        // Not looked up: better no answer than one without records.
        Test::DigestText(_) => "error('digest_text was not looked up') IS NULL".to_owned(),
        Test::Digests(digests) if digests.is_empty() => "false".to_owned(),
        Test::Digests(digests) => {
            let list: Vec<String> = digests.iter().map(|digest| literal(digest)).collect();
            format!("{column} IN ({})", list.join(", "))
        }
        Test::Begins(text) => format!("starts_with({column}, {})", literal(text)),
        Test::Table(db, table) => {
            let one = |db_name: &str, table_name: &str| {
                let table = like(table_name, table);
                match db {
                    Some(db) => format!("({} AND {table})", like(db_name, db)),
                    None => table,
                }
            };
            let (old, new) = (one("t.\"db\"", "t.\"table\""), one("t.new_db", "t.new_table"));
            format!("len(list_filter({column}, lambda t: {old} OR {new})) > 0")
        }
    }
}

fn compared<T>(all: &[(Comparison, T)], one: impl Fn(Comparison, &T) -> String) -> String {
    let each: Vec<String> = all.iter().map(|(comparison, value)| one(*comparison, value)).collect();
    match &each[..] {
        [one] => one.clone(),
        many => format!("({})", many.join(" AND ")),
    }
}

fn like(column: &str, pattern: &Pattern) -> String {
    if let Some(text) = pattern.text() {
        return format!("{column} = {}", literal(text));
    }
    match &pattern.pieces[..] {
        [Piece::Any] => format!("{column} IS NOT NULL"),
        [Piece::Text(text), Piece::Any] => format!("starts_with({column}, {})", literal(text)),
        [Piece::Any, Piece::Text(text)] => format!("ends_with({column}, {})", literal(text)),
        [Piece::Any, Piece::Text(text), Piece::Any] => {
            format!("contains({column}, {})", literal(text))
        }
        pieces => format!("{column} LIKE {}", like_pattern(pieces)),
    }
}

fn contains(column: &str, pattern: &Pattern) -> String {
    let condition = match pattern.text() {
        Some(text) => format!("contains(lower({column}), lower({}))", literal(text)),
        None => {
            let mut pieces = vec![Piece::Any];
            pieces.extend(pattern.pieces.iter().cloned());
            pieces.push(Piece::Any);
            format!("{column} ILIKE {}", like_pattern(&pieces))
        }
    };
    match caseless_run(pattern) {
        Some(run) => format!("(contains({column}, {}) AND {condition})", literal(run)),
        None => condition,
    }
}

/// Characters of the pattern that a text has as they are, if it contains the pattern: the longest
/// run of ASCII without letters. No other character has one of these as its lower case, so the
/// condition stays the same, and most texts need not be converted.
fn caseless_run(pattern: &Pattern) -> Option<&str> {
    pattern.longest_run(RUN_BYTES_MIN, |c| !c.is_ascii() || c.is_ascii_alphabetic())
}

fn like_pattern(pieces: &[Piece]) -> String {
    let mut pattern = String::new();
    for piece in pieces {
        match piece {
            Piece::Any => pattern.push('%'),
            Piece::One => pattern.push('_'),
            Piece::Text(text) => {
                for c in text.chars() {
                    if matches!(c, '%' | '_' | '\\') {
                        pattern.push('\\');
                    }
                    pattern.push(c);
                }
            }
        }
    }
    format!("{} ESCAPE '\\'", literal(&pattern))
}

/// A text as a literal of SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name of a column, which is one of ours.
fn name(column: &str) -> String {
    format!("\"{column}\"")
}
