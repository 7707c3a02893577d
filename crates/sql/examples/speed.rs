//! How fast statements are normalised, on one core: megabytes per second for each kind, the best of
//! some rounds.
//!
//! All statements of a kind have one shape, as on a server, and their own literals, so that the
//! processor cannot learn them. Each statement of `shapes` has its own shape and occurs once:
//! nothing is known about any of them. In `half_shapes`, every second one does.
//!
//! Under callgrind, collect only in `normalise_all` for instructions per byte: `speed KIND 1` (a
//! kind by its name, and one round).

use std::fmt::Write;
use std::time::Instant;

use tacho_sql::digest::{Normaliser, TEXT_BYTES_DEFAULT};
use tacho_sql::grouping::Grouping;
use tacho_sql::{High, Mode};

/// Minimum bytes of statements in a round: some milliseconds, which is less than a time slice.
const ROUND_BYTES: usize = 1 << 20;

/// Literals from a linear congruential generator: the same ones in every run.
struct Literals(u64);

impl Literals {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    /// Small numbers as often as large ones.
    fn number(&mut self) -> usize {
        let end = 10_usize.pow(1 + self.below(7) as u32);
        self.below(end)
    }

    fn text(&mut self, bytes_max: usize) -> String {
        const TEXT: &str = "Some name, or an address of 12 Usual Road, ~ 12345 City; and what \
             people write beside it: please ring twice. Thank you very much!";
        let bytes = 1 + self.below(bytes_max);
        let start = self.below(TEXT.len() - bytes);
        TEXT[start..start + bytes].to_owned()
    }

    /// As sysbench sends it.
    fn point_select(&mut self) -> String {
        format!("SELECT c FROM sbtest{} WHERE id={}", 1, self.number())
    }

    fn join(&mut self) -> String {
        format!(
            "SELECT o.id, o.created_at, o.total_cents, c.name, c.email FROM orders o JOIN customers \
             c ON c.id = o.customer_id WHERE o.status = '{}' AND o.created_at >= '2026-11-{}' ORDER \
             BY o.created_at DESC LIMIT {}",
            self.text(8),
            self.below(28),
            self.number()
        )
    }

    fn update(&mut self) -> String {
        format!(
            "UPDATE `shop`.`orders` SET `status` = '{}', `tracking` = '{}', `updated_at` = NOW() \
             WHERE `id` IN ({}, {}, {}) /* app:web */",
            self.text(10),
            self.text(24),
            self.number(),
            self.number(),
            self.number()
        )
    }

    /// 1 KiB, with five joins, as people write such queries.
    fn report(&mut self) -> String {
        format!(
            "SELECT c.country, c.city, p.category_id, cat.name AS category_name,\n       \
             COUNT(DISTINCT o.id) AS orders, SUM(oi.quantity) AS pieces,\n       \
             SUM(oi.quantity * oi.unit_price * (1 - COALESCE(oi.discount, {}))) AS revenue,\n       \
             AVG(DATEDIFF(s.delivered_at, o.created_at)) AS delivery_days\n\
             FROM orders o\n    \
             INNER JOIN customers c ON c.id = o.customer_id\n    \
             INNER JOIN order_items oi ON oi.order_id = o.id\n    \
             INNER JOIN products p ON p.id = oi.product_id\n    \
             LEFT JOIN categories cat ON cat.id = p.category_id AND cat.deleted_at IS NULL\n    \
             LEFT JOIN shipments s ON s.order_id = o.id AND s.status = '{}'\n\
             WHERE o.created_at BETWEEN '2026-01-{:02} 00:00:00' AND '2026-11-30 23:59:59'\n  \
             AND o.status IN ('{}', '{}', 'returned')\n  AND (c.segment = {} OR c.score > {})\n  \
             AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.order_id = o.id AND r.amount > {})\n\
             GROUP BY c.country, c.city, p.category_id, cat.name\n\
             HAVING revenue > {} AND orders >= {}\n\
             ORDER BY revenue DESC, c.country ASC, c.city ASC\nLIMIT {}, {}",
            self.number(),
            self.text(12),
            self.below(28),
            self.text(10),
            self.text(10),
            self.number(),
            self.number(),
            self.number(),
            self.number(),
            self.number(),
            self.number(),
            self.number()
        )
    }

    /// 100 columns, as Hibernate selects them.
    fn orm(&mut self) -> String {
        const COLUMNS: [&str; 10] = [
            "id",
            "version",
            "created_at",
            "updated_by",
            "first_name",
            "billing_address_line",
            "is_active",
            "price_net_cents",
            "external_reference",
            "note",
        ];
        let columns: Vec<String> = (0..100)
            .map(|number| {
                let (table, name) = (number / 10, COLUMNS[number % 10]);
                format!("entity{table}_.{name} as {name}{number}_{table}_")
            })
            .collect();
        let joins: String = (1..10).fold(String::new(), |mut joins, table| {
            let _ = write!(
                joins,
                " left outer join entity_table_{table} entity{table}_ on \
                 entity0_.entity{table}_id=entity{table}_.id"
            );
            joins
        });
        let from = "entity_table_0 entity0_";
        let (columns, number, text) = (columns.join(", "), self.number(), self.text(20));
        format!(
            "select {columns} from {from}{joins} where entity0_.id={number} and \
             entity0_.first_name='{text}'"
        )
    }

    fn rows(&mut self, bytes: usize) -> String {
        let mut sql = "INSERT INTO customers (id, name, address, score, note) VALUES ".to_owned();
        while sql.len() < bytes {
            let (id, name, address) = (self.number(), self.text(24), self.text(60));
            let (score, note) = (self.number(), self.text(40));
            let note = if self.below(4) == 0 { "NULL".to_owned() } else { format!("'{note}'") };
            let _ = write!(sql, "({id}, '{name}', '{address}', {score}.{}, {note}), ", id % 10);
        }
        sql.truncate(sql.len() - 2);
        sql
    }

    fn in_list(&mut self, bytes: usize) -> String {
        let mut sql = "SELECT name FROM customers WHERE id IN (".to_owned();
        while sql.len() < bytes {
            let _ = write!(sql, "{}, ", self.number());
        }
        sql.truncate(sql.len() - 2);
        sql + ")"
    }

    fn shape(&mut self) -> String {
        self.join().replace("orders", &format!("orders_{}", self.below(1 << 30)))
    }

    fn half_shape(&mut self) -> String {
        if self.below(2) == 0 { self.join() } else { self.shape() }
    }

    fn blob(&mut self) -> String {
        format!("INSERT INTO files VALUES ({}, '{}')", self.number(), "x".repeat(1 << 20))
    }
}

/// Fills a round.
fn fill(seed: u64, mut next: impl FnMut(&mut Literals) -> String) -> Vec<String> {
    let mut literals = Literals(seed);
    let mut bytes = 0;
    let mut statements = Vec::new();
    while bytes < ROUND_BYTES {
        let sql = next(&mut literals);
        bytes += sql.len();
        statements.push(sql);
    }
    statements
}

type Kind = (&'static str, fn(u64) -> Vec<String>);

const KINDS: [Kind; 11] = [
    ("point_select", |seed| fill(seed, Literals::point_select)),
    ("join", |seed| fill(seed, Literals::join)),
    ("update", |seed| fill(seed, Literals::update)),
    ("report", |seed| fill(seed, Literals::report)),
    ("orm", |seed| fill(seed, Literals::orm)),
    ("rows_10_KiB", |seed| fill(seed, |literals| literals.rows(10 << 10))),
    ("rows_1_MiB", |seed| fill(seed, |literals| literals.rows(1 << 20))),
    ("in_list_1_MiB", |seed| fill(seed, |literals| literals.in_list(1 << 20))),
    ("half_shapes", |seed| fill(seed, Literals::half_shape)),
    ("shapes", |seed| fill(seed, Literals::shape)),
    ("blob", |seed| fill(seed, Literals::blob)),
];

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
    let rounds = arguments.get(1).map_or(Ok(200), |rounds| rounds.parse()).expect("a number");
    let mut normaliser = Normaliser::default();
    for (name, statements) in KINDS {
        if arguments.first().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let new_statements = statements;
        let mut statements = new_statements(1);
        let bytes: usize = statements.iter().map(String::len).sum();
        let mut best_s = f64::INFINITY;
        for round in 1..=rounds {
            if name == "shapes" || name == "half_shapes" {
                statements = new_statements(round);
            }
            let start = Instant::now();
            std::hint::black_box(normalise_all(&mut normaliser, &statements));
            best_s = best_s.min(start.elapsed().as_secs_f64());
        }
        let (each, mean_ns) = (bytes / statements.len(), best_s * 1e9 / statements.len() as f64);
        let rate = bytes as f64 / best_s / 1e6;
        println!(
            "{name:14} {rate:6.0} MB/s  {each:8} bytes  {mean_ns:9.0} ns each  ({bytes} bytes)"
        );
    }
}
