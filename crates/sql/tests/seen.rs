//! Zone: outside. Neither the cache of a normaliser nor the position of tokens in a statement
//! changes a text or a digest.

use tacho_sql::digest::Normaliser;
use tacho_sql::grouping::Grouping;
use tacho_sql::{High, Mode};

fn normalise(normaliser: &mut Normaliser, sql: &str) -> (String, String) {
    let mode = Mode::new(Grouping::Bytes, High::LETTERS);
    let normalised = normaliser.normalise(sql.as_bytes(), mode, usize::MAX);
    assert!(!normalised.is_cut && !normalised.out_of_memory);
    (String::from_utf8_lossy(normalised.text).into_owned(), normalised.digest.to_string())
}

/// The result of a normaliser with an empty cache.
fn expected(sql: &str) -> (String, String) {
    normalise(&mut Normaliser::default(), sql)
}

/// A normaliser after many failed lookups.
fn worn() -> Normaliser {
    let mut normaliser = Normaliser::default();
    for number in 0..200 {
        normalise(&mut normaliser, &format!("SELECT a{number} FROM t WHERE b = '\\'{number}'"));
    }
    normaliser
}

#[test]
fn shapes_that_come_once_and_those_that_come_again_have_their_digests() {
    let once = |first: usize| {
        (first..first + 400).map(|number| {
            format!("SELECT a{number} FROM t{number} WHERE `c` = {number} /* {number} */")
        })
    };
    // With a form, without one, and too long for one.
    let again = (0..1200).map(|number| match number % 3 {
        0 => format!("SELECT a{} , b FROM t WHERE c IN ({number}, 'x')", number % 7),
        1 => format!("SELECT a{} , b FROM t WHERE c = 'it\\'s {number}'", number % 7),
        _ => format!("INSERT INTO t{} VALUES {}(1, 2)", number % 7, "(3, 4), ".repeat(300)),
    });
    let mut normaliser = Normaliser::default();
    for sql in once(0).chain(again).chain(once(200)) {
        assert_eq!(normalise(&mut normaliser, &sql), expected(&sql), "{sql}");
    }
}

/// Whether a hash is cached or computed, wherever a block of it ends, and whatever is removed at
/// the end of a text.
#[test]
fn texts_of_any_length_have_one_hash() {
    let mut worn = worn();
    for bytes in 0..400 {
        for end in ["", ";", " ; ;", " ,", " FROM t", " FROM t ;", " = 1", " IN (1, 2)"] {
            let names = "t.name , ".repeat(bytes / 9 + 1);
            let sql = format!("{}{end}", &names[..bytes]);
            // One text in some is looked up; never two in a row.
            for _ in 0..2 {
                assert_eq!(normalise(&mut worn, &sql), expected(&sql), "{sql}");
            }
        }
    }
}

#[test]
fn the_position_of_a_token_in_a_span_does_not_matter() {
    let statements = [
        "SELECT o.id, order_items.created_at, db.t.c, t.`q`, a_name_of_more_than_16_bytes.b c FROM t",
        "select count(*), now(), sum( x ), @v, @@global.x, _utf8mb4'a', N'b', x'41', 0x1F FROM `t`.u",
        "INSERT INTO t VALUES (1, 'it''s', NULL, 1.5e3), (-2,'\\'', null , .5) ON DUPLICATE KEY UPDATE a=1",
        "/*!50101 SELECT 1abc, 1.5abc, a.1b */ -- x\n + -1 <=> !b AND \u{e9}t\u{e9}.\u{e9} /* c */ # d",
        "SELECT a_name_that_is_longer_than_sixty_four_bytes_for_it_does_not_end_before_the_next_span_does b",
    ];
    for sql in statements {
        let expected = expected(sql);
        for before in 0..130 {
            for behind in [0, 1, 63, 64, 65] {
                let moved = format!("{}{sql}{}", " ".repeat(before), "\n".repeat(behind));
                assert_eq!(normalise(&mut Normaliser::default(), &moved), expected, "{moved:?}");
            }
        }
    }
}
