//! People and jobs that connect once, do something that is worth finding, and leave.

use tacho_record::{EventKind, Outcome, OwnedRecord};

use super::clock::SECOND_US;
use super::crowd::{Numbers, Planned, fill, push_statement};
use super::random::Random;
use super::shape::{CHANGE, QUERY, Shape};

/// A connection from its begin to its end.
pub struct Visit {
    pub user: &'static str,
    pub host: &'static str,
    pub ip: &'static str,
    pub db: &'static str,
    pub tls: &'static str,
    /// Seconds before each statement.
    pub pause_s: u64,
    pub steps: &'static [Shape],
}

/// A change of the schema.
const SCHEMA: Shape = Shape { command: "alter_table", rows: (0, 0), ..CHANGE };

/// An administrator changes a large table.
pub static DEPLOYMENT: Visit = Visit {
    user: "anna",
    host: "bastion.example",
    ip: "10.20.0.9",
    db: "shop",
    tls: "TLSv1.3",
    pause_s: 9,
    steps: &[
        Shape {
            sql: "SELECT COUNT(*) FROM orders",
            reads: &["orders"],
            rows: (1, 1),
            examined: 1_840_112,
            usual_us: 900_000,
            ..QUERY
        },
        Shape {
            sql: "ALTER TABLE orders ADD COLUMN delivery_note VARCHAR(400) NULL, ALGORITHM=COPY",
            writes: &["orders"],
            usual_us: 41_000_000,
            ..SCHEMA
        },
        Shape {
            sql: "CREATE INDEX orders_created ON orders (created_at)",
            command: "create_index",
            writes: &["orders"],
            usual_us: 17_000_000,
            ..SCHEMA
        },
        Shape {
            sql: "ANALYZE TABLE orders",
            command: "analyze",
            reads: &["orders"],
            usual_us: 800_000,
            ..QUERY
        },
    ],
};

/// The nightly copy.
pub static BACKUP: Visit = Visit {
    user: "backup",
    host: "backup1.example",
    ip: "10.20.0.7",
    db: "shop",
    tls: "TLSv1.3",
    pause_s: 1,
    steps: &[
        Shape {
            sql: "FLUSH TABLES WITH READ LOCK",
            command: "flush",
            rows: (0, 0),
            usual_us: 60_000,
            ..CHANGE
        },
        Shape {
            sql: "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            command: "begin",
            rows: (0, 0),
            ..CHANGE
        },
        Shape { sql: "UNLOCK TABLES", command: "unlock_tables", rows: (0, 0), ..CHANGE },
        Shape {
            sql: "SELECT /*!40001 SQL_NO_CACHE */ * FROM `customers`",
            reads: &["customers"],
            rows: (412_006, 412_006),
            usual_us: 14_000_000,
            ..QUERY
        },
        Shape {
            sql: "SELECT /*!40001 SQL_NO_CACHE */ * FROM `orders`",
            reads: &["orders"],
            rows: (1_838_940, 1_838_940),
            usual_us: 74_000_000,
            ..QUERY
        },
        Shape {
            sql: "SELECT /*!40001 SQL_NO_CACHE */ * FROM `products`",
            reads: &["products"],
            rows: (48_210, 48_210),
            usual_us: 2_100_000,
            ..QUERY
        },
    ],
};

/// The same on the other servers.
pub static BACKUP_CRM: Visit = Visit {
    db: "crm",
    steps: &[Shape {
        sql: "SELECT /*!40001 SQL_NO_CACHE */ * FROM `customers`",
        reads: &["customers"],
        rows: (412_006, 412_006),
        usual_us: 16_000_000,
        ..QUERY
    }],
    ..BACKUP_OF
};

const BACKUP_OF: Visit = Visit {
    user: "backup",
    host: "backup1.example",
    ip: "10.20.0.7",
    db: "",
    tls: "TLSv1.3",
    pause_s: 1,
    steps: &[],
};

/// A new account.
pub static NEW_ACCOUNT: Visit = Visit {
    user: "anna",
    host: "bastion.example",
    ip: "10.20.0.9",
    db: "",
    tls: "TLSv1.3",
    pause_s: 14,
    steps: &[
        Shape {
            sql: "CREATE USER 'tom'@'10.20.9.%' IDENTIFIED BY <secret>",
            command: "create_user",
            rows: (0, 0),
            ..CHANGE
        },
        Shape {
            sql: "GRANT SELECT, UPDATE, DELETE ON shop.* TO 'tom'@'10.20.9.%'",
            command: "grant",
            rows: (0, 0),
            ..CHANGE
        },
        Shape {
            sql: "SHOW GRANTS FOR 'tom'@'10.20.9.%'",
            command: "show_grants",
            rows: (2, 2),
            ..QUERY
        },
    ],
};

/// A mistake.
pub static DELETED_TOO_MUCH: Visit = Visit {
    user: "tom",
    host: "desk22.office.example",
    ip: "10.20.9.22",
    db: "shop",
    tls: "TLSv1.2",
    pause_s: 21,
    steps: &[
        Shape {
            sql: "SELECT COUNT(*) FROM cart_items WHERE created_at < '2026-01-01'",
            reads: &["cart_items"],
            rows: (1, 1),
            examined: 240_114,
            usual_us: 210_000,
            ..QUERY
        },
        Shape {
            sql: "DELETE FROM cart_items",
            command: "delete",
            writes: &["cart_items"],
            rows: (240_114, 240_114),
            usual_us: 6_400_000,
            ..CHANGE
        },
        Shape { sql: "ROLLBACK", command: "rollback", rows: (0, 0), ..CHANGE },
    ],
};

/// An account whose password was guessed.
pub static INTRUDER: Visit = Visit {
    user: "reporting",
    host: "",
    ip: "203.0.113.66",
    db: "crm",
    tls: "",
    pause_s: 4,
    steps: &[
        Shape { sql: "SELECT @@version", rows: (1, 1), ..QUERY },
        Shape { sql: "SHOW DATABASES", command: "show_databases", rows: (4, 4), ..QUERY },
        Shape {
            sql: "SELECT table_schema, table_name FROM information_schema.tables WHERE \
                  table_schema NOT IN ('mysql', 'sys')",
            reads: &["tables"],
            rows: (61, 61),
            usual_us: 8_000,
            ..QUERY
        },
        Shape {
            sql: "SELECT * FROM crm.customers",
            reads: &["customers"],
            rows: (412_006, 412_006),
            usual_us: 9_000_000,
            ..QUERY
        },
    ],
};

impl Visit {
    /// All lines of it, from its begin on.
    pub fn plan(
        &self,
        begin_us: i64,
        numbers: &mut Numbers,
        random: &mut Random,
        planned: &mut Vec<Planned>,
    ) {
        numbers.conn += 1;
        let conn = numbers.conn;
        let record = |conn_seq: usize, ts_us: i64, event: EventKind| OwnedRecord {
            ts_us,
            event: Some(event),
            conn: Some(conn),
            conn_seq: Some(conn_seq as u64),
            user: self.user.into(),
            priv_user: self.user.into(),
            host: self.host.into(),
            ip: self.ip.into(),
            db: self.db.into(),
            ..OwnedRecord::default()
        };
        let connect = OwnedRecord {
            outcome: Some(Outcome::Ok),
            tls: self.tls.into(),
            port: Some(40_000 + (conn % 20_000) as u16),
            ..record(1, begin_us, EventKind::Connect)
        };
        planned.push((begin_us, connect));
        let mut now_us = begin_us;
        for (shape, conn_seq) in self.steps.iter().zip(2..) {
            now_us += self.pause_s as i64 * SECOND_US + random.below(900_000) as i64;
            numbers.query += 1;
            let mut statement = record(conn_seq, now_us, EventKind::Statement);
            statement.query_id = Some(numbers.query);
            let took_us = fill(&mut statement, shape, self.db, 1.0, random);
            push_statement(statement, took_us, planned);
            now_us += took_us as i64;
        }
        now_us += SECOND_US;
        planned.push((now_us, record(self.steps.len() + 2, now_us, EventKind::Disconnect)));
    }
}
