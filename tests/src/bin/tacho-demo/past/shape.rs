//! Shapes of statements, and the statements that an application makes of them.

use tacho_record::{OwnedTable, TableAccess};

use super::random::Random;

/// A statement without its values.
#[derive(Clone, Copy)]
pub struct Shape {
    /// How frequent it is, compared with the others of its application.
    pub weight: u32,
    /// Its text, with places for values: `{id}`, `{small}`, `{price}`, `{word}`, `{mail}`.
    pub sql: &'static str,
    /// The server's class of it.
    pub command: &'static str,
    /// Tables that are read.
    pub reads: &'static [&'static str],
    /// Tables that are written.
    pub writes: &'static [&'static str],
    /// Usual duration, µs.
    pub usual_us: u64,
    /// Rows that are sent, or changed: from, to.
    pub rows: (u64, u64),
    /// Rows that are read for each of them.
    pub examined: u64,
    /// An error that it has now and then, and its frequency: once in so many.
    pub error: Option<(Fault, u64)>,
}

/// A query that finds its rows by an index.
pub const QUERY: Shape = Shape {
    weight: 10,
    sql: "",
    command: "select",
    reads: &[],
    writes: &[],
    usual_us: 300,
    rows: (0, 20),
    examined: 1,
    error: None,
};

/// A change of one row.
pub const CHANGE: Shape = Shape { command: "update", usual_us: 700, rows: (1, 1), ..QUERY };

/// An error of the server.
#[derive(Clone, Copy)]
pub struct Fault {
    pub errno: u32,
    pub sqlstate: &'static str,
    pub message: &'static str,
    /// How long the statement waits for it, µs.
    pub after_us: u64,
}

pub const DUPLICATE: Fault = Fault {
    errno: 1062,
    sqlstate: "23000",
    message: "Duplicate entry 'SPRING-25' for key 'coupon_code'",
    after_us: 400,
};
pub const DEADLOCK: Fault = Fault {
    errno: 1213,
    sqlstate: "40001",
    message: "Deadlock found when trying to get lock; try restarting transaction",
    after_us: 45_000,
};
pub const LOCK_WAIT: Fault = Fault {
    errno: 1205,
    sqlstate: "HY000",
    message: "Lock wait timeout exceeded; try restarting transaction",
    after_us: 50_000_000,
};
pub const NO_TABLE: Fault = Fault {
    errno: 1146,
    sqlstate: "42S02",
    message: "Table 'shop.orders_v2' doesn't exist",
    after_us: 150,
};
pub const DENIED: Fault = Fault {
    errno: 1142,
    sqlstate: "42000",
    message: "SELECT command denied to user 'support'@'10.20.9.14' for table `crm`.`cards`",
    after_us: 120,
};

const WORDS: [&str; 12] = [
    "lamp",
    "oak table",
    "blue chair",
    "rug",
    "kettle",
    "desk",
    "mirror",
    "shelf",
    "curtain",
    "vase",
    "clock",
    "sofa",
];
const NAMES: [&str; 8] = ["ann", "bao", "carla", "dev", "eva", "femi", "goran", "hana"];

impl Shape {
    /// Its text with values.
    pub fn text(&self, random: &mut Random) -> String {
        let mut text = String::with_capacity(self.sql.len() + 16);
        let mut rest = self.sql;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').expect("a place ends");
            text += before;
            text += &value(name, random);
            rest = after;
        }
        text + rest
    }

    /// Its tables, of this database.
    pub fn tables(&self, db: &str) -> Vec<OwnedTable> {
        let of = |access: TableAccess, names: &[&'static str]| {
            let table = move |name: &&'static str| OwnedTable {
                access,
                db: db.into(),
                table: (*name).into(),
                new_db: Vec::new(),
                new_table: Vec::new(),
            };
            names.iter().map(table).collect::<Vec<_>>()
        };
        let access = match self.command {
            "create_table" => TableAccess::Create,
            "drop_table" => TableAccess::Drop,
            "alter_table" | "create_index" => TableAccess::Alter,
            _ => TableAccess::Write,
        };
        [of(TableAccess::Read, self.reads), of(access, self.writes)].concat()
    }

    /// Whether it answers with rows; others change them.
    pub fn sends_rows(&self) -> bool {
        self.command == "select" || self.command.starts_with("show")
    }
}

fn value(name: &str, random: &mut Random) -> String {
    match name {
        "id" => (100_000 + random.below(900_000)).to_string(),
        "small" => (1 + random.below(9)).to_string(),
        "price" => format!("{}.{:02}", 5 + random.below(400), random.below(100)),
        "word" => (*random.pick(&WORDS)).to_owned(),
        "mail" => format!("{}{}@example.com", random.pick(&NAMES), random.below(1_000)),
        other => unreachable!("no value has the name {other}"),
    }
}
