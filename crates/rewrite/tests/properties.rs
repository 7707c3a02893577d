//! Any statement, any bytes: a pattern made from a statement matches it and its variants, matching
//! statements have the digest of the pattern, a form represents one shape, and nothing panics.

use std::collections::HashMap;

use proptest::prelude::*;
use tacho_rewrite::compile::{Compiler, RuleSource};
use tacho_rewrite::form::{self, Key};
use tacho_rewrite::lexer::Lexer;
use tacho_rewrite::matching::Parameters;
use tacho_rewrite::shape::{Limits, Outcome, Shape};
use tacho_rewrite::token::Kind;
use tacho_rewrite::{Program, Reading, RuleMatch, Statement, compose};
use tacho_sql::digest::Normaliser;
use tacho_sql::grouping::Grouping;
use tacho_sql::{High, Mode};

const KEY: Key = Key([0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9]);

fn compile(pattern: &[u8], replacement: &[u8]) -> Option<Vec<u8>> {
    let mut compiler = Compiler::default();
    compiler.add(&RuleSource { id: 7, pattern, database: None, replacement }).ok()?;
    compiler.finish().ok()
}

fn rewrite(program: &[u8], text: &[u8], reading: Reading) -> Option<Vec<u8>> {
    let mut parameters = Parameters::default();
    let statement = Statement { text, reading, database: b"" };
    let RuleMatch::Rule(rule) = Program::new(program).find(&statement, &mut parameters) else {
        return None;
    };
    let mut room = vec![0; compose::length(&rule, text, &parameters)?];
    compose::write(&rule, text, &parameters, &mut room)?;
    Some(room)
}

fn digest(text: &[u8]) -> String {
    let mode = Mode::new(Grouping::Bytes, High::LETTERS);
    Normaliser::default().normalise(text, mode, usize::MAX).digest.to_string()
}

/// A piece of a statement: in the pattern, in the statement, and in a variant of it.
#[derive(Clone, Debug)]
struct Piece {
    pattern: String,
    text: String,
    variant: String,
}

fn piece(pattern: &str, text: &str, variant: &str) -> Piece {
    let [pattern, text, variant] = [pattern, text, variant].map(str::to_owned);
    Piece { pattern, text, variant }
}

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u32>().prop_map(|number| number.to_string()),
        (any::<u16>(), any::<u16>()).prop_map(|(whole, part)| format!("{whole}.{part}")),
        any::<u8>().prop_map(|exponent| format!("1e{exponent}")),
        any::<u8>().prop_map(|number| format!("0x{number:02X}")),
        "[a-z?;/*#-]{0,40}".prop_map(|text| format!("'{text}'")),
        "[a-z]{0,8}".prop_map(|text| format!("\"{text}\"")),
        Just("'it''s'".to_owned()),
        Just("'it\\'s'".to_owned()),
        Just("'\u{e9}'".to_owned()),
        Just("x'41'".to_owned()),
        Just("N'a'".to_owned()),
    ]
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let word = prop::sample::select(vec![
        "SELECT",
        "FROM",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "GROUP",
        "BY",
        "IN",
        "VALUES",
        "INSERT",
        "AS",
        "JOIN",
        "ON",
        "IS",
        "BETWEEN",
        "LIKE",
        "CURRENT_DATE",
        "FOR",
        "UPDATE",
    ]);
    let word = word.prop_map(|word| piece(word, word, &word.to_lowercase()));
    let name = prop::sample::select(vec!["a", "b2", "sbtest1", "_c", "\u{e9}t\u{e9}", "customer"]);
    let name = name.prop_map(|name| piece(name, name, &format!("`{name}`")));
    let quoted = prop::sample::select(vec!["`order`", "`a``b`", "`x y`", "`it's`", "@v", "@`w`"]);
    let quoted = quoted.prop_map(|name| piece(name, name, name));
    let operator = prop::sample::select(vec![
        // No signs: the digest treats one before a number as a part of it, and one before a `?` as
        // an operator.
        "=", "<", ">=", "<=>", "*", "%", ",", "(", ")", "||", "&&", ":=", "!=",
    ]);
    let operator = operator.prop_map(|it| piece(it, it, if it == "!=" { "<>" } else { it }));
    let function = Just(piece("COUNT(", "COUNT(", "count("));
    let qualified = Just(piece("t.id", "t.id", "`t`.`id`"));
    let parameter = (literal(), literal()).prop_map(|(one, other)| piece("?", &one, &other));
    let kept = literal().prop_map(|literal| piece(&literal, &literal, &literal));
    let signed = (any::<u16>(), any::<u16>())
        .prop_map(|(one, other)| piece("(?", &format!("(-{one}"), &format!("(+{other}")));
    let list = (literal(), literal(), literal())
        .prop_map(|(a, b, c)| piece("(?, ?)", &format!("({a}, {b})"), &format!("({b},{c})")));
    let any = prop_oneof![
        4 => word, 3 => name, 1 => quoted, 3 => operator, 1 => function, 1 => qualified,
        3 => parameter, 1 => kept, 1 => signed, 1 => list,
    ];
    prop::collection::vec(any, 1..24)
}

/// A prepared statement with parameters, which is never rewritten.
fn has_mark(text: &[u8]) -> bool {
    Lexer::new(text, Reading::USUAL).any(|token| token.kind == Kind::Mark)
}

fn gap() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        " ",
        "  ",
        "\n",
        "\t",
        " /* ? ' */ ",
        " -- ? '\n",
        " # \"\n",
        "/**/ ",
    ])
    .prop_map(str::to_owned)
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn a_pattern_matches_its_statement_and_the_variants_of_it(
        pieces in pieces(),
        gaps in prop::collection::vec(gap(), 24),
    ) {
        let join = |part: fn(&Piece) -> &String| {
            pieces.iter().map(|it| part(it).as_str()).collect::<Vec<_>>().join(" ")
        };
        let (pattern, text) = (join(|it| &it.pattern), join(|it| &it.text));
        let variant: String = pieces
            .iter()
            .zip(&gaps)
            .flat_map(|(it, gap)| [it.variant.as_str(), gap.as_str()])
            .collect();
        let program = compile(pattern.as_bytes(), b"SELECT 1");
        prop_assert!(program.is_some(), "{}", pattern);
        let program = program.unwrap_or_default();
        for text in [&text, &variant, &pattern] {
            let new = rewrite(&program, text.as_bytes(), Reading::USUAL);
            let expected = (!has_mark(text.as_bytes())).then_some(&b"SELECT 1"[..]);
            prop_assert_eq!(new.as_deref(), expected, "{}\n{}", pattern, text);
            prop_assert_eq!(digest(text.as_bytes()), digest(pattern.as_bytes()), "{}", text);
        }
    }

    /// A replacement that is equal to the pattern returns the statement, as far as its tokens go.
    #[test]
    fn a_replacement_equal_to_the_pattern_changes_nothing(pieces in pieces()) {
        let pattern: Vec<&str> = pieces.iter().map(|it| it.pattern.as_str()).collect();
        let text: Vec<&str> = pieces.iter().map(|it| it.text.as_str()).collect();
        let (pattern, text) = (pattern.join(" "), text.join(" "));
        let program = compile(pattern.as_bytes(), pattern.as_bytes()).unwrap_or_default();
        let new = rewrite(&program, text.as_bytes(), Reading::USUAL).unwrap_or_default();
        let tokens = |text: &[u8]| -> Vec<(Kind, Vec<u8>)> {
            let lexer = Lexer::new(text, Reading::USUAL);
            lexer.map(|token| (token.kind, token.text.to_vec())).collect()
        };
        prop_assert_eq!(tokens(&new), tokens(text.as_bytes()), "{}", String::from_utf8_lossy(&new));
    }
}

/// Parts of random texts.
const PARTS: &[&str] = &[
    "1",
    "23",
    "1.5",
    "12345678901234567890",
    "'a'",
    "''",
    "'it''s'",
    "'\\''",
    "\"b\"",
    "'\u{e9}'",
    "/* c */",
    "/**/",
    "/*/ */",
    "/*+ 1 */",
    "/*+ ' */",
    "/*!",
    "/*",
    "*/",
    "--",
    "-- ",
    " ",
    " ",
    " ",
    ",",
    "(",
    ")",
    "=",
    "-",
    "+",
    "*",
    "/",
    "<",
    ">",
    ".",
    "@",
    "@@",
    "?",
    ":",
    ";",
    "`d`",
    "`d``e`",
    "`",
    "'",
    "\"",
    "\n",
    "a",
    "b9",
    "t.",
    "N",
    "x",
    "_utf8mb4",
    "NULL",
    "NOT ",
    "SELECT ",
    "COUNT",
    "1e",
    "e5",
    "0x",
    "0b1",
    "\u{e9}",
    "$",
    "\\",
    "#",
    "\0",
    "\u{7F}",
    "!",
    "&&",
    "->",
    "->>",
];

/// A literal or a comment that replaces another one of its kind.
fn other(kind: Kind, text: &str, number: usize) -> String {
    let wide = number % 4 * 23;
    match kind {
        Kind::Number if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{number:0wide$}")
        }
        Kind::String if text.starts_with('\'') => format!("'{:wide$}''-- /* \\\\'", number),
        Kind::String if text.starts_with('"') => format!("\"{:wide$}\"\"'#\"", number),
        _ => text.to_owned(),
    }
}

proptest! {
    #![proptest_config(config(6000))]

    /// Texts with the same form have the same shape, or are rejected: texts that differ in
    /// literals, and any two that are equal by chance.
    #[test]
    fn a_form_stands_for_one_shape(
        texts in prop::collection::vec(
            prop::collection::vec(prop::sample::select(PARTS), 0..12), 1..8),
        seed in 0..1000_usize,
        flags in 0..16_u8,
    ) {
        let reading = Reading {
            ansi_quotes: flags & 1 != 0,
            no_escapes: flags & 2 != 0,
            is_unknown: flags & 4 != 0,
            is_utf8: flags & 8 == 0,
        };
        let mut seen: HashMap<u64, (Option<u64>, String)> = HashMap::new();
        for parts in &texts {
            let text = parts.concat();
            let lexer = Lexer::new(text.as_bytes(), reading);
            let mut varied = String::new();
            let mut end = 0;
            for (index, token) in lexer.enumerate() {
                varied.push_str(&text[end..token.start]);
                let token_text = std::str::from_utf8(token.text).expect("whole characters");
                varied.push_str(&other(token.kind, token_text, seed + index));
                end = token.end();
            }
            varied.push_str(&text[end..]);
            for text in [text, varied] {
                let Some(number) = form::number(text.as_bytes(), reading.modes(), &KEY, 1) else { continue };
                let shape = match Shape::of(Lexer::new(text.as_bytes(), reading), &Limits::ALL) {
                    Outcome::Whole(shape) => Some(shape.number()),
                    Outcome::Beyond | Outcome::Refused(_) => None,
                };
                let (before, first) = seen.entry(number).or_insert((shape, text.clone()));
                prop_assert_eq!(*before, shape, "{:?} {:?}", first, text);
            }
        }
    }

    /// For any bytes: nothing panics, and tokens lie within the text, one after the other.
    #[test]
    fn hostile_bytes_are_read(
        text in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            prop::collection::vec(prop::sample::select(PARTS), 0..20)
                .prop_map(|parts| parts.concat().into_bytes()),
        ],
        program in prop::collection::vec(any::<u8>(), 0..200),
        flags in 0..16_u8,
    ) {
        let reading = Reading {
            ansi_quotes: flags & 1 != 0,
            no_escapes: flags & 2 != 0,
            is_unknown: flags & 4 != 0,
            is_utf8: flags & 8 == 0,
        };
        let mut end = 0;
        for token in Lexer::new(&text, reading) {
            prop_assert!(token.start >= end && token.end() > token.start);
            prop_assert_eq!(&text[token.start..token.end()], token.text);
            end = token.end();
        }
        let _number = form::number(&text, reading.modes(), &KEY, 1);
        let _new = rewrite(&program, &text, reading);
        // A pattern of any bytes: if it compiles, it matches itself, without parameters.
        if let Some(program) = compile(&text, b"SELECT 1") {
            let new = rewrite(&program, &text, Reading::USUAL);
            let expected = (!has_mark(&text)).then_some(&b"SELECT 1"[..]);
            prop_assert_eq!(new.as_deref(), expected);
            let mut damaged = program.clone();
            if let Some(byte) = damaged.get_mut(usize::from(flags) * 7) {
                *byte ^= 1 << (flags & 7);
            }
            let _new = rewrite(&damaged, &text, reading);
        }
    }
}
