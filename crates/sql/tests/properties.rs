//! Zone: outside. Random statements: irrelevant differences change nothing, and every literal is
//! removed.

use proptest::prelude::*;
use tacho_sql::digest::{Normaliser, REDACTED};
use tacho_sql::grouping::Grouping;
use tacho_sql::{Doubt, High, Mode};

const GROUPINGS: [Grouping; 7] = [
    Grouping::Bytes,
    Grouping::Sjis,
    Grouping::Big5,
    Grouping::Gbk,
    Grouping::Gb18030,
    Grouping::Euckr,
    Grouping::Unknown,
];

fn mode(grouping: Grouping) -> Mode {
    Mode::new(grouping, High::LETTERS)
}

fn normalise(sql: &[u8], mode: Mode) -> (Vec<u8>, String) {
    let mut normaliser = Normaliser::default();
    let normalised = normaliser.normalise(sql, mode, usize::MAX);
    assert!(!normalised.is_cut && !normalised.out_of_memory);
    (normalised.text.to_vec(), normalised.digest.to_string())
}

fn has(text: &[u8], mark: &str) -> bool {
    text.windows(mark.len()).any(|part| part.eq_ignore_ascii_case(mark.as_bytes()))
}

/// Enough for every change; PROPTEST_CASES requests more.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(2000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Statements with `$` for a literal; other words are split at blanks, which may become any gap.
const SHAPES: &[&str] = &[
    "SELECT a , $ FROM t WHERE b = $ AND c IN ( $ , $ , $ ) OR d IS NULL",
    "INSERT INTO `d` . t ( a , b ) VALUES ( $ , $ ) , ( $ , $ ) ON DUPLICATE KEY UPDATE a = $",
    "UPDATE t SET a = a + $ , `b-c` = $ WHERE x BETWEEN $ AND $ LIMIT $",
    "DELETE FROM t WHERE a LIKE $ ESCAPE $ AND NOT b <=> $",
    "CALL p ( $ , $ , @v )",
    "SELECT CASE a WHEN $ THEN $ ELSE $ END , COUNT( * ) , x . y FROM t x GROUP BY $",
    "CREATE TABLE t ( a INT NOT NULL DEFAULT $ COMMENT $ , b VARCHAR( $ ) )",
    "SET @v := $ , SESSION max_statement_time = $",
    "SELECT * FROM t WHERE a = $ ; UPDATE t SET b = $",
    "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = $",
    "PREPARE s FROM $",
    "SELECT JSON_VALUE( a , $ ) , t . `select` , $ DIV $ FROM t HAVING a > $ || b",
];

/// Possible texts between two tokens.
const GAPS: &[&str] = &[
    " ",
    "\n",
    "\t ",
    " \r\n",
    "/**/",
    " /* it's */ ",
    "-- don't \"\n",
    "# `\n",
    "\x0B",
    "/*;*/",
    "/*+ NO_ICP(t) */",
];

/// Occurs only in literals: the mark of a string, and that of a number.
const MARK: &str = "q7Zk9";
const DIGITS: &str = "9417";

/// A literal. Numbers first: they may get a sign.
fn literal(style: u8) -> String {
    match style % 17 {
        0 => format!("{DIGITS}3"),
        1 => format!("{DIGITS}.5"),
        2 => format!(".{DIGITS}"),
        3 => format!("1{DIGITS}e-5"),
        4 => format!("0x{DIGITS}AF"),
        5 => format!("-{DIGITS}"),
        6 => format!("'{MARK}'"),
        7 => format!("\"{MARK}\""),
        8 => format!("'a''{MARK}'"),
        9 => format!("'a\\'{MARK}'"),
        10 => format!("'/* {MARK} -- # `'"),
        11 => format!("N'{MARK}'"),
        12 => format!("x'{DIGITS}'"),
        13 => format!("'{MARK}\\\\'"),
        14 => format!("\"'{MARK};\""),
        15 => format!("'{MARK}\u{e9}\u{1F600}'"),
        _ => format!("'{MARK}\n\\n'"),
    }
}

/// A statement of a shape, with literals, gaps and cases of its own.
fn statement(shape: &str, noise: &[(u8, u8, bool)]) -> String {
    let mut sql = String::new();
    let mut last = "";
    for (index, word) in shape.split(' ').enumerate() {
        let (mut style, gap, is_lower) = noise[index % noise.len()];
        if index > 0 {
            sql.push_str(GAPS[usize::from(gap) % GAPS.len()]);
        }
        // The grammar has a text here: a sign is not permitted.
        if matches!(last, "ESCAPE" | "COMMENT") {
            style = 6;
        }
        last = word;
        match word {
            "$" => sql.push_str(&literal(style)),
            word if is_lower && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'(') => {
                sql.push_str(&word.to_lowercase());
            }
            word => sql.push_str(word),
        }
    }
    sql
}

fn noise() -> impl Strategy<Value = Vec<(u8, u8, bool)>> {
    prop::collection::vec(any::<(u8, u8, bool)>(), 8..40)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn irrelevant_differences_change_nothing(
        shape in prop::sample::select(SHAPES),
        one in noise(),
        other in noise(),
    ) {
        let [one, other] = [one, other].map(|noise| statement(shape, &noise));
        let [a, b] = [&one, &other].map(|sql| normalise(sql.as_bytes(), mode(Grouping::Bytes)));
        prop_assert_eq!(&a, &b, "{:?} and {:?}", one, other);
    }

    #[test]
    fn every_literal_is_removed(
        shape in prop::sample::select(SHAPES),
        noise in noise(),
        cut in prop::option::of(any::<prop::sample::Index>()),
        doubt in prop::sample::select(vec![Doubt::Guess, Doubt::Stop]),
    ) {
        let sql = statement(shape, &noise);
        // A truncated number looks like a name that begins with a digit.
        let bytes = match cut.filter(|_| doubt != Doubt::Guess) {
            Some(cut) => &sql.as_bytes()[..cut.index(sql.len() + 1)],
            None => sql.as_bytes(),
        };
        let (text, _) = normalise(bytes, Mode { doubt, ..mode(Grouping::Bytes) });
        prop_assert!(!has(&text, MARK) && !has(&text, DIGITS), "{:?}", String::from_utf8_lossy(&text));
    }

    /// Whatever the `sql_mode`: the mode used here and the server's mode may differ.
    #[test]
    fn ambiguous_texts_lose_the_literals_of_every_mode(
        shape in prop::sample::select(SHAPES),
        noise in noise(),
        tail in prop::sample::select(vec!["", "\\", "\\'", "\\\\", "*/", "\\n"]),
        is_versioned in any::<bool>(),
    ) {
        let mut sql = statement(shape, &noise).replace(MARK, &format!("{tail}{MARK}"));
        if is_versioned {
            sql = format!("/*!50000 {sql} */ , '{MARK}'");
        }
        let stop = Mode { doubt: Doubt::Stop, ..mode(Grouping::Bytes) };
        let (text, _) = normalise(sql.as_bytes(), stop);
        let shown = String::from_utf8_lossy(&text);
        prop_assert!(!has(&text, MARK) && !has(&text, DIGITS), "{sql:?}: {shown}");
        // A part that is kept as a name is one in every mode.
        for escapes in [true, false] {
            let known = Mode { escapes, escapes_in_double: escapes, doubt: Doubt::Guess, ..stop };
            let (read, _) = normalise(sql.as_bytes(), known);
            let read = String::from_utf8_lossy(&read);
            for name in shown.split('`').skip(1).step_by(2) {
                prop_assert!(read.contains(&format!("`{name}`")), "{sql:?}: {shown}, {read}");
            }
        }
    }

    #[test]
    fn a_normalised_text_stays_as_it_is(
        parts in prop::collection::vec(prop::sample::select(vec![
            "'", "\"", "`", "\\", ";", "/*", "*/", "/*!", "/*!50000", "-- ", "#", "\n", " ", "(",
            ")", "=", ",", "@", "@@", ".", "...", "?", "SELECT", "NULL", "IS", "NOT", "COUNT(",
            "now()", "USER", "1", "1.5", "1e", "0x1", "x'", "N'", "_utf8mb4", "a", "t.5", "+", "-",
            "<", ">", "!", ":=", "|", "&", "\\N", "/* , ... */", "(?)", "(...)", "é", "x", ";;",
            "\u{0}", "IN", "VALUES", "DAY", "mid(", "current_timestamp", "{", "$", "~",
        ]), 0..40),
        grouping in prop::sample::select(GROUPINGS.to_vec()),
    ) {
        let sql = parts.concat();
        let (text, digest) = normalise(sql.as_bytes(), mode(grouping));
        let (again, same) = normalise(&text, mode(grouping));
        prop_assert_eq!(String::from_utf8_lossy(&text), String::from_utf8_lossy(&again), "{:?}", sql);
        prop_assert_eq!(digest, same);
    }

    #[test]
    fn any_bytes_are_survived(
        sql in prop::collection::vec(any::<u8>(), 0..200),
        grouping in prop::sample::select(GROUPINGS.to_vec()),
        flags in any::<[bool; 4]>(),
    ) {
        let mode = Mode {
            escapes: flags[0],
            escapes_in_double: flags[1],
            ansi_quotes: flags[2],
            doubt: if flags[3] { Doubt::Stop } else { Doubt::Guess },
            ..mode(grouping)
        };
        let (text, digest) = normalise(&sql, mode);
        prop_assert!(text.len() <= 6 * sql.len() + REDACTED.len());
        let mut normaliser = Normaliser::default();
        let cut = normaliser.normalise(&sql, mode, 10);
        prop_assert_eq!(cut.text, &text[..text.len().min(10)]);
        prop_assert_eq!(cut.is_cut, text.len() > 10);
        prop_assert_eq!(cut.digest.to_string(), digest);
    }
}

#[test]
fn texts_cut_anywhere_have_no_literal() {
    for shape in SHAPES {
        for style in 0..17 {
            let sql = statement(shape, &[(style, 0, false)]);
            for end in 0..=sql.len() {
                let bytes = &sql.as_bytes()[..end];
                let stop = Mode { doubt: Doubt::Stop, ..mode(Grouping::Bytes) };
                let (text, _) = normalise(bytes, stop);
                let shown = String::from_utf8_lossy(&text);
                assert!(!has(&text, "q7Z") && !has(&text, "941"), "{shown}");
            }
        }
    }
}

/// A long text goes to the hash in pieces, and only its beginning is kept.
#[test]
fn long_texts_have_the_digest_of_all_of_them() {
    let columns = |last: &str| {
        let names: Vec<String> = (0..50_000).map(|number| format!("column{number}")).collect();
        format!("SELECT {} , {last} FROM t;", names.join(","))
    };
    let mut normaliser = Normaliser::default();
    let mut digests = Vec::new();
    for (sql, is_same) in
        [(columns("a"), true), (columns("b"), false), (columns("a").replace(",", " , "), true)]
    {
        let (text, whole) = normalise(sql.as_bytes(), mode(Grouping::Bytes));
        let normalised = normaliser.normalise(sql.as_bytes(), mode(Grouping::Bytes), 1024);
        assert_eq!(normalised.text, &text[..1024]);
        assert!(normalised.is_cut);
        assert_eq!(normalised.digest.to_string(), whole);
        digests.push((whole, is_same));
    }
    assert!(digests.iter().all(|(digest, is_same)| (*digest == digests[0].0) == *is_same));
}

/// A list of any length becomes one: none of it is kept.
#[test]
fn long_lists_are_short() {
    let list = |count: usize| format!("INSERT INTO t VALUES {}", vec!["(1, 'x')"; count].join(","));
    let (text, digest) = normalise(list(100_000).as_bytes(), mode(Grouping::Bytes));
    assert_eq!(text, b"INSERT INTO `t` VALUES (...) /* , ... */");
    assert_eq!(normalise(list(2).as_bytes(), mode(Grouping::Bytes)).1, digest);
}

/// The seeds of the fuzzer, cut everywhere, in every mode.
#[test]
fn seeds_of_the_fuzzer_are_survived() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/statement");
    let mut count = 0;
    for seed in std::fs::read_dir(seeds).expect("the seeds") {
        let sql = std::fs::read(seed.expect("a seed").path()).expect("a seed");
        count += 1;
        for end in 0..=sql.len() {
            for grouping in GROUPINGS {
                for flags in 0..16 {
                    let mode = Mode {
                        escapes: flags & 1 == 0,
                        escapes_in_double: flags & 2 == 0,
                        ansi_quotes: flags & 4 != 0,
                        doubt: if flags & 8 == 0 { Doubt::Guess } else { Doubt::Stop },
                        ..mode(grouping)
                    };
                    let (text, digest) = normalise(&sql[..end], mode);
                    // Half a character at the end of a name may swallow its backtick.
                    if flags == 0 && grouping == Grouping::Bytes {
                        assert_eq!(normalise(&text, mode), (text, digest));
                    }
                }
            }
        }
    }
    assert!(count >= 10, "only {count} seeds");
}
