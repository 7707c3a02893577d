//! How fast statements are normalised, on one core: megabytes a second for each kind, the best of
//! some rounds.
//!
//! Under callgrind, collect in `normalise_all` alone for instructions a byte:
//! `speed KIND 1` (a kind by its name, and one round).

use std::time::Instant;

use tacho_digest::grouping::Grouping;
use tacho_digest::{High, Mode, Normaliser, TEXT_BYTES_DEFAULT};

const POINT_SELECT: &str = "SELECT c FROM sbtest1 WHERE id=5031";
const JOIN: &str = "SELECT o.id, o.created_at, o.total_cents, c.name, c.email FROM orders o \
     JOIN customers c ON c.id = o.customer_id WHERE o.status = 'open' AND o.created_at >= \
     '2026-11-01' ORDER BY o.created_at DESC LIMIT 50";
const UPDATE: &str = "UPDATE `shop`.`orders` SET `status` = 'shipped', `tracking` = \
     'DHL-00340434292135100186', `updated_at` = NOW() WHERE `id` IN (10231, 10232, 10233) /* app:web */";
/// Bytes of statements in a round.
const ROUND_BYTES: usize = 4 << 20;

fn kinds() -> Vec<(&'static str, Vec<String>)> {
    let rows = |count: usize| {
        let row = "(17, 'Some name or other', 'and an address of usual length, 12345 City', 3.14)";
        format!("INSERT INTO customers VALUES {}", vec![row; count].join(", "))
    };
    let fill = |sql: String| vec![sql.clone(); (ROUND_BYTES / sql.len()).max(1)];
    let blob = format!("INSERT INTO files VALUES (1, '{}')", "x".repeat(1 << 20));
    vec![
        ("select", fill(POINT_SELECT.to_owned())),
        ("join", fill(JOIN.to_owned())),
        ("update", fill(UPDATE.to_owned())),
        ("insert_10", fill(rows(10))),
        ("insert_10000", fill(rows(10_000))),
        ("blob", fill(blob)),
    ]
}

#[inline(never)]
fn normalise_all(normaliser: &mut Normaliser, statements: &[String]) -> u8 {
    let mode = Mode::new(Grouping::Bytes, High::LETTERS);
    let digest = |sql: &String| {
        normaliser.normalise(sql.as_bytes(), mode, TEXT_BYTES_DEFAULT).digest.written()[9]
    };
    statements.iter().map(digest).fold(0, |sum, byte| sum ^ byte)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.get(1).map_or(Ok(30), |rounds| rounds.parse()).expect("a number");
    let mut normaliser = Normaliser::default();
    for (name, statements) in kinds() {
        if arguments.first().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let bytes: usize = statements.iter().map(String::len).sum();
        let mut best_s = f64::INFINITY;
        for _ in 0..rounds {
            let start = Instant::now();
            std::hint::black_box(normalise_all(&mut normaliser, &statements));
            best_s = best_s.min(start.elapsed().as_secs_f64());
        }
        println!("{name}: {bytes} bytes, {:.0} MB/s", bytes as f64 / best_s / 1e6);
    }
}
