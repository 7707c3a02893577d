//! The statements of the tests of digests (`crates/sql/tests/corpus.json`): each one that can be a
//! pattern matches itself, and this crate's lexer agrees with the digest's.

use std::collections::BTreeMap;

use tacho_rewrite::compile::{Compiler, RuleSource};
use tacho_rewrite::lexer::Lexer;
use tacho_rewrite::matching::Parameters;
use tacho_rewrite::token::Kind;
use tacho_rewrite::{Program, Reading, RuleMatch, Statement};
use tacho_sql::digest::Normaliser;
use tacho_sql::grouping::Grouping;
use tacho_sql::{High, Mode};

fn corpus() -> Vec<BTreeMap<String, String>> {
    serde_json::from_str(include_str!("../../sql/tests/corpus.json")).expect("the corpus")
}

fn digest(text: &[u8]) -> String {
    let mode = Mode::new(Grouping::Bytes, High::LETTERS);
    Normaliser::default().normalise(text, mode, usize::MAX).digest.to_string()
}

/// The tokens of a statement with blanks between them; `None`: it is rejected.
fn spaced(text: &[u8]) -> Option<Vec<u8>> {
    let mut lexer = Lexer::new(text, Reading::USUAL);
    let mut spaced = Vec::new();
    let mut end = 0;
    for token in lexer.by_ref() {
        // Adjacent tokens may have another meaning than separated ones.
        if token.start > end {
            spaced.push(b' ');
        }
        spaced.extend_from_slice(token.text);
        end = token.end();
    }
    lexer.refused().is_none().then_some(spaced)
}

#[test]
fn tokens_are_those_of_the_digest() {
    let mut read = 0;
    for entry in corpus() {
        let sql = entry["sql"].as_bytes();
        // For the digest, a hint is a comment, and a semicolon at the end a token.
        let is_apart = |token: tacho_rewrite::token::Token| token.kind == Kind::Hint;
        if sql.contains(&b';') || Lexer::new(sql, Reading::USUAL).any(is_apart) {
            continue;
        }
        if let Some(spaced) = spaced(sql) {
            assert_eq!(digest(&spaced), digest(sql), "{}", entry["sql"]);
            read += 1;
        }
    }
    assert!(read > 300, "only {read}");
}

#[test]
fn a_statement_matches_itself() {
    let mut matched = 0;
    for entry in corpus() {
        let text = entry["sql"].as_bytes();
        let source = RuleSource { id: 7, pattern: text, database: None, replacement: b"SELECT 1" };
        let mut compiler = Compiler::default();
        let has_mark = Lexer::new(text, Reading::USUAL).any(|token| token.kind == Kind::Mark);
        if has_mark || compiler.add(&source).is_err() {
            continue;
        }
        let program = compiler.finish().expect("one rule");
        let mut parameters = Parameters::default();
        let statement = Statement { text, reading: Reading::USUAL, database: b"" };
        let found = Program::new(&program).find(&statement, &mut parameters);
        assert!(matches!(found, RuleMatch::Rule(_)), "{}", entry["sql"]);
        matched += 1;
    }
    assert!(matched > 200, "only {matched}");
}
