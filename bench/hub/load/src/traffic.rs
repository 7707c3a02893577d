//! Made-up traffic of a database server with the skew of a real one.
//!
//! - 40 applications, each with a user, a database, 4 hosts and 32 pooled connections. The n-th
//!   most frequent application has about 1/n of the first one's statements, and so have the 50
//!   statements of each.
//! - 1 of 1,000 statements comes from a person with a connection of their own.
//! - Literals are random: numbers, e-mail addresses, tokens. So no two statements are equal.
//! - 1 % are errors, half of them of the rarest 8 applications.
//! - Times and numbers of rows are skewed: most are small, a few are a thousand times as large.
//! - The load follows the hour of the day, and hour 2 of the last day has a batch with 10 % of all
//!   records.
//!
//! A line has about 450 bytes. It has an address and no host name, as with `skip_name_resolve`.

use std::io::Write as _;

use tacho_record::json::write_line;
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Outcome, Record};
use tacho_sql::digest::Normaliser;
use tacho_sql::redact::Setting;

pub const HOUR_US: i64 = 3_600_000_000;
/// 2026-10-19T00:00:00Z, a Monday.
pub const BEGIN_US: i64 = 1_792_368_000_000_000;

const APPS: u64 = 40;
const STATEMENTS: u64 = 50;
const HOSTS: u64 = 4;
const POOL: u64 = 32;
/// How busy each hour of a day is.
const DAY: [u64; 24] = [
    30, 22, 18, 16, 16, 20, 32, 52, 78, 96, 100, 98, 84, 90, 100, 98, 92, 84, 72, 66, 60, 54, 46,
    38,
];
/// The part of all records that the batch has, 1/n.
const BATCH: u64 = 10;
const WORDS: [&str; 8] = ["new", "paid", "sent", "open", "held", "returned", "closed", "draft"];

/// Random numbers (xorshift64*): the same for every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(0x9E37_79B9_7F4A_7C15 ^ (seed << 32))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, count: u64) -> u64 {
        ((self.next() >> 32) * count) >> 32
    }

    /// 0 is the most frequent one: frequencies are about 1, 1/2, 1/3 …
    fn skewed(&mut self, count: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        ((count as f64 + 1.0).powf(unit) - 1.0) as u64
    }
}

/// One statement of an application.
struct Shape {
    sql_command: &'static str,
    is_read: bool,
    table: String,
    digest: [u8; 34],
}

/// An application.
struct App {
    user: String,
    db: String,
    addresses: Vec<String>,
    shapes: Vec<Shape>,
}

/// The traffic of one server.
pub struct Traffic {
    server: u64,
    random: Random,
    apps: Vec<App>,
    clock: TimeFormatter,
    sql: Vec<u8>,
}

impl Traffic {
    pub fn new(server: u64) -> Self {
        let mut normaliser = Normaliser::default();
        let app = |app| App {
            user: format!("app{app}"),
            db: format!("shop{app}"),
            addresses: (0..HOSTS).map(|host| format!("10.{server}.{app}.{host}")).collect(),
            shapes: (0..STATEMENTS).map(|number| shape(&mut normaliser, app, number)).collect(),
        };
        Self {
            server,
            random: Random::new(server),
            apps: (0..APPS).map(app).collect(),
            clock: TimeFormatter::utc(),
            sql: Vec::new(),
        }
    }

    /// The line that says that recording began.
    pub fn start(&mut self, out: &mut Vec<u8>, seq: u64, ts_us: i64, signing_key: &str) {
        let record = Record {
            seq,
            ts_us,
            event: Some(EventKind::Start),
            run: Some(1),
            server: b"MariaDB 10.11.19",
            signing_key: signing_key.as_bytes(),
            ..Record::default()
        };
        write_line(out, &record, &mut self.clock);
    }

    /// Appends the line of the next statement.
    pub fn statement(&mut self, out: &mut Vec<u8>, seq: u64, ts_us: i64) {
        let Self { random, apps, clock, sql, server } = self;
        let mut number = random.skewed(APPS);
        let is_error = random.below(100) == 0;
        if is_error && random.below(2) == 0 {
            number = APPS - 8 + random.below(8);
        }
        let shape_number = random.skewed(STATEMENTS);
        let app = &apps[number as usize];
        let shape = &app.shapes[shape_number as usize];
        let member = random.below(POOL);
        let is_person = random.below(1_000) == 0;
        let conn = if is_person { 100_000 + seq } else { 100 + number * POOL + member };
        let ip = &app.addresses[(member % HOSTS) as usize];
        sql.clear();
        write_sql(sql, &shape.table, shape_number, Some(random));
        // Small ones are frequent: 40 µs to some seconds.
        let time_us = 30
            + random.below(60)
            + random.skewed(2_000) * (1 + random.skewed(40)) * (1 + shape_number % 7);
        let is_read = shape.is_read;
        let sent = if is_read && !is_error { random.skewed(1_000) } else { 0 };
        let examined = sent + random.skewed(100_000);
        let affected = u64::from(!is_read && !is_error);
        let record = Record {
            seq,
            ts_us,
            event: Some(EventKind::Statement),
            outcome: Some(if is_error { Outcome::Error } else { Outcome::Ok }),
            run: Some(1),
            conn: Some(conn),
            conn_seq: Some(1 + seq / (APPS * POOL)),
            query_id: Some(seq * 2 + *server),
            user: if is_person { b"ann" } else { app.user.as_bytes() },
            ip: ip.as_bytes(),
            db: app.db.as_bytes(),
            command: b"Query",
            sql_command: shape.sql_command.as_bytes(),
            errno: if is_error { 1213 } else { 0 },
            error: if is_error { b"Deadlock found when trying to get lock" } else { b"" },
            sql: Some(sql),
            sql_charset: b"utf8mb4",
            digest: &shape.digest,
            rows_sent: Some(sent),
            rows_examined: Some(examined),
            rows_affected: (!is_read).then_some(affected),
            query_time_us: Some(time_us),
            lock_time_us: Some(random.below(30)),
            ..Record::default()
        };
        write_line(out, &record, clock);
    }
}

fn shape(normaliser: &mut Normaliser, app: u64, number: u64) -> Shape {
    let sql_command = match number % 7 {
        2 => "insert",
        3 => "update",
        4 => "delete",
        _ => "select",
    };
    let table = format!("t{}_{}", app % 10, number);
    let mut sql = Vec::new();
    write_sql(&mut sql, &table, number, None);
    let mode = Setting::of(b"utf8mb4", b"").digest_mode().expect("the mode of the defaults");
    let digest = normaliser.normalise(&sql, mode, 0).digest.written();
    Shape { sql_command, is_read: sql_command == "select", table, digest }
}

/// The text of a statement. Without random numbers: with some literals.
fn write_sql(out: &mut Vec<u8>, table: &str, number: u64, random: Option<&mut Random>) {
    let (a, b, c) = random.map_or((1, 2, 3), |it| (it.next(), it.next(), it.next()));
    let (id, word) = (a % 10_000_000, WORDS[(b % 8) as usize]);
    let date = format_args!("2026-10-{:02} {:02}:{:02}:{:02}", 1 + b % 28, a % 24, b % 60, c % 60);
    let written = match number % 7 {
        0 => write!(out, "SELECT id, name, price, stock FROM {table} WHERE id = {id}"),
        1 => write!(
            out,
            "SELECT o.id, o.total FROM {table} o WHERE o.customer_id = {id} AND o.state IN \
             ('{word}', 'void') ORDER BY o.id DESC LIMIT 20"
        ),
        2 => write!(
            out,
            "INSERT INTO {table} (user_id, kind, token, created_at) VALUES ({id}, '{word}', \
             '{c:016x}', '{date}')"
        ),
        3 => write!(
            out,
            "UPDATE {table} SET state = '{word}', updated_at = '{date}' WHERE id = {id}"
        ),
        4 => write!(out, "DELETE FROM {table} WHERE token = '{c:016x}'"),
        5 => write!(
            out,
            "SELECT COUNT(*) FROM {table} WHERE state = '{word}' AND created_at >= '{date}'"
        ),
        _ => write!(
            out,
            "SELECT id, email, country FROM {table} WHERE email = 'user{id}@example.net'"
        ),
    };
    written.expect("a vector takes everything");
}

/// How many records each hour has: about `records` in all.
pub fn hours(records: u64, hours: u64) -> Vec<u64> {
    let of_day: Vec<u64> = (0..hours).map(|hour| DAY[(hour % 24) as usize]).collect();
    let sum: u64 = of_day.iter().sum();
    // Less than a day has no batch.
    let batch = if hours < 24 { 0 } else { records / BATCH };
    let mut counts: Vec<u64> = of_day.iter().map(|part| (records - batch) * part / sum).collect();
    if let Some(hour) = hours.checked_sub(22).filter(|_| batch > 0) {
        counts[hour as usize] = batch;
    }
    counts
}
