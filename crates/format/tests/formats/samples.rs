//! One record of each kind, with all of its possible fields.

use tacho_record::{EventKind, Outcome, TableAccess};
use tacho_record::{OwnedRecord, OwnedTable};

/// 2026-11-21T00:02:03.123456Z.
pub const TS_US: i64 = 1_795_219_323_123_456;

fn record(seq: u64, event: EventKind) -> OwnedRecord {
    OwnedRecord { seq, ts_us: TS_US, event: Some(event), ..OwnedRecord::default() }
}

fn session(seq: u64, event: EventKind, outcome: Outcome) -> OwnedRecord {
    OwnedRecord {
        outcome: Some(outcome),
        run: Some(3),
        conn: Some(12),
        conn_seq: Some(seq),
        user: b"anna".to_vec(),
        priv_user: b"account".to_vec(),
        host: b"app1".to_vec(),
        ip: b"10.0.0.7".to_vec(),
        port: Some(51234),
        db: b"shop".to_vec(),
        ..record(seq, event)
    }
}

/// A statement of a session.
pub fn statement(seq: u64, sql_command: &str, sql: &str) -> OwnedRecord {
    OwnedRecord {
        query_id: Some(99),
        command: b"Query".to_vec(),
        sql_command: sql_command.into(),
        sql: Some(sql.into()),
        sql_charset: b"utf8mb4".to_vec(),
        digest: b"1:00112233445566778899aabbccddeeff".to_vec(),
        rows_sent: Some(3),
        rows_examined: Some(40),
        rows_affected: Some(5),
        query_time_us: Some(1_500_000),
        lock_time_us: Some(20),
        ..session(seq, EventKind::Statement, Outcome::Ok)
    }
}

fn touched(access: TableAccess, table: &str) -> OwnedTable {
    let renamed = access == TableAccess::Rename;
    OwnedTable {
        access,
        db: b"shop".to_vec(),
        table: table.into(),
        new_db: if renamed { b"old".to_vec() } else { Vec::new() },
        new_table: if renamed { b"gone".to_vec() } else { Vec::new() },
    }
}

pub fn samples() -> Vec<OwnedRecord> {
    use EventKind::{ChangeUser, Config, Connect, ConnectFailed, Disconnect, Lost, Start, Stop};
    let failed = OwnedRecord {
        errno: 1045,
        sqlstate: b"28000".to_vec(),
        error: b"Access denied for user 'anna'".to_vec(),
        ..session(3, ConnectFailed, Outcome::Error)
    };
    let anonymous = OwnedRecord {
        outcome: Some(Outcome::Error),
        conn: Some(13),
        errno: 1158,
        ..record(4, ConnectFailed)
    };
    let proxied = OwnedRecord {
        proxy_user: b"'worker'@'%'".to_vec(),
        os_user: b"jane".to_vec(),
        tls: b"TLSv1.3".to_vec(),
        program: b"mysql".to_vec(),
        ..session(5, Connect, Outcome::Ok)
    };
    let error = OwnedRecord {
        outcome: Some(Outcome::Error),
        errno: 1146,
        sqlstate: b"42S02".to_vec(),
        error: b"Table 'shop.x' doesn't exist".to_vec(),
        tables: [TableAccess::Read, TableAccess::Rename, TableAccess::Drop]
            .map(|access| touched(access, "orders"))
            .to_vec(),
        sql_redacted: true,
        sql_bytes: Some(5000),
        ..statement(8, "alter_table", "SELECT 'ä\n\t' -- \\")
    };
    let unended = |seq, outcome| OwnedRecord {
        outcome: Some(outcome),
        query_time_us: None,
        ..statement(seq, "select", "SELECT SLEEP(100)")
    };
    let completing = OwnedRecord {
        running_seq: Some(9),
        sql: None,
        sql_charset: Vec::new(),
        digest: Vec::new(),
        ..statement(11, "select", "")
    };
    let lone = OwnedRecord {
        outcome: Some(Outcome::Error),
        conn: Some(12),
        errno: 1243,
        error: b"Unknown prepared statement handler".to_vec(),
        ..record(12, EventKind::Statement)
    };
    let table = OwnedRecord {
        query_id: Some(7),
        tables: vec![touched(TableAccess::Write, "event")],
        ..record(13, EventKind::Table)
    };
    let blocked = OwnedRecord {
        outcome: Some(Outcome::Error),
        errno: 3942,
        sqlstate: b"HY000".to_vec(),
        error: b"Blocked by a rule".to_vec(),
        blocked_by: b"no drops".to_vec(),
        ..statement(26, "drop_table", "DROP TABLE t")
    };
    let command = |seq, command: &str, sql: Option<&str>| OwnedRecord {
        command: command.into(),
        digest: Vec::new(),
        sql: sql.map(Into::into),
        ..statement(seq, "", "")
    };
    vec![
        OwnedRecord {
            server: b"MariaDB 10.11.19".to_vec(),
            signing_key: b"RWRhY2hv".to_vec(),
            ..record(1, Start)
        },
        session(2, Connect, Outcome::Ok),
        failed,
        anonymous,
        proxied,
        session(6, ChangeUser, Outcome::Ok),
        statement(7, "select", "SELECT 1"),
        error,
        unended(9, Outcome::Running),
        unended(10, Outcome::Interrupted),
        completing,
        lone,
        table,
        command(14, "Ping", None),
        command(15, "Init DB", Some("shop")),
        statement(16, "insert", "INSERT INTO t VALUES (1)"),
        statement(17, "create_table", "CREATE TABLE t (a INT)"),
        statement(18, "show_tables", "SHOW TABLES"),
        statement(19, "begin", "BEGIN"),
        session(20, Disconnect, Outcome::Ok),
        OwnedRecord {
            count: Some(5),
            cause: b"timeout".to_vec(),
            start_ts_us: Some(TS_US - 1_000_000),
            ..record(21, Lost)
        },
        OwnedRecord {
            cause: b"arena_gone".to_vec(),
            start_ts_us: Some(TS_US - 1_000_000),
            ..record(22, Lost)
        },
        OwnedRecord {
            variable: b"tacho_logging".to_vec(),
            old_value: b"ON".to_vec(),
            new_value: b"OFF".to_vec(),
            ..record(23, Config)
        },
        record(24, Stop),
        OwnedRecord {
            rewrite_rule: Some(4711),
            rewritten_query: Some(b"SELECT 'it is \"2\"'".to_vec()),
            ..statement(25, "select", "SELECT 1")
        },
        blocked,
    ]
}
