//! The commands, case by case. `docs/specs/commands.md` has the resulting lines.

use std::cell::RefCell;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tacho_tests::raw::{Login, LoginResult, Raw, com};
use tacho_tests::server::TestServer;

/// The server, for the cases that need more than their own session.
pub struct World {
    socket: PathBuf,
    directory: PathBuf,
    port: u16,
    /// Sessions whose lines belong to a case, besides the case's own.
    pub shown: RefCell<Vec<u64>>,
}

impl World {
    pub fn new(server: &TestServer) -> World {
        World {
            socket: server.socket().to_owned(),
            directory: server.directory().to_owned(),
            port: server.port(),
            shown: RefCell::default(),
        }
    }

    /// Another session.
    pub fn root(&self) -> Raw {
        Raw::connect(&self.socket, "root").expect("a session")
    }

    /// Waits until the session executes something that has `marker` in its state or text.
    fn wait_for(&self, conn: u64, condition: &str) {
        let mut other = self.root();
        let deadline = Instant::now() + Duration::from_secs(180);
        let sql = format!(
            "SELECT 1 FROM information_schema.processlist WHERE id = {conn} AND {condition}"
        );
        loop {
            let answers = other.query(&sql).expect("asking");
            if answers == [tacho_tests::raw::Answer::Rows { rows: 1, error: None }] {
                return;
            }
            assert!(Instant::now() < deadline, "{conn} never came to {condition}");
            // InnoDB renews its view of locks only if it was not read for 100 ms.
            thread::sleep(Duration::from_millis(150));
        }
    }

    /// Also prints the lines of this session, and ends it if it is logged in.
    fn shown(&self, login: LoginResult) {
        let conn = match login.expect("a connection") {
            Ok(mut raw) => {
                raw.command(com::QUIT, b"").expect("quitting");
                raw.conn
            }
            Err((conn, _)) => conn,
        };
        self.shown.borrow_mut().push(conn);
    }

    /// Waits until the session has ended.
    fn wait_until_gone(&self, conn: u64) {
        let mut other = self.root();
        let deadline = Instant::now() + Duration::from_secs(180);
        let sql = format!("SELECT 1 FROM information_schema.processlist WHERE id = {conn}");
        while other.query(&sql).expect("asking")
            != [tacho_tests::raw::Answer::Rows { rows: 0, error: None }]
        {
            assert!(Instant::now() < deadline, "{conn} is still there");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

pub struct Case {
    pub group: &'static str,
    pub name: &'static str,
    pub note: &'static str,
    /// Uses the session up, or gives it back to be ended by `COM_QUIT`.
    pub run: fn(&World, Raw) -> Option<Raw>,
}

pub const PREFACE: &str = "\
# What is recorded for each command

`tests/mariadb/commands.rs` generates this page: it runs every case on a real MariaDB and compares.
Each line of a block stands for one line of the log, in the order of `conn_seq`:

- command (or event), `sql_command`, `outcome`, `errno`/`sqlstate`, `sql` as in the log;
- `sent` (`rows_sent`), `examined` (`rows_examined`), `affected` (`rows_affected`);
- `lock` if there is a `lock_time_us`, `no-time` if there is no `query_time_us`, `no-message` if an
  error has no `error`.

Numbers, times and identities are omitted.
";

pub const SETUP: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100)) ENGINE=InnoDB",
    "INSERT INTO d.t VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e')",
    "CREATE TABLE d.log (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(100)) ENGINE=InnoDB",
    "CREATE TABLE d.blobs (b LONGBLOB) ENGINE=InnoDB",
    "CREATE TABLE d.triggered (id INT PRIMARY KEY) ENGINE=InnoDB",
    "CREATE TRIGGER d.tr AFTER INSERT ON d.triggered FOR EACH ROW INSERT INTO d.log (v) VALUES (NEW.id)",
    "CREATE PROCEDURE d.leaf() SELECT v FROM d.t WHERE id = 1",
    "CREATE PROCEDURE d.nested() BEGIN CALL d.leaf(); UPDATE d.t SET v = v WHERE id = 2; END",
    "CREATE PROCEDURE d.recursive(n INT) BEGIN IF n > 0 THEN CALL d.recursive(n - 1); \
     ELSE SELECT 'bottom'; END IF; END",
    "CREATE PROCEDURE d.swallows() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @e = 1; \
     INSERT INTO d.t VALUES (1, 'twice'); SELECT 'after'; END",
    "CREATE PROCEDURE d.fails() BEGIN SELECT 'before'; INSERT INTO d.t VALUES (1, 'twice'); \
     SELECT 'never'; END",
    "CREATE PROCEDURE d.gives(OUT a INT, INOUT b INT) BEGIN SET a = 7; SET b = b + 1; END",
    "CREATE PROCEDURE d.dynamic() BEGIN EXECUTE IMMEDIATE 'SELECT 1'; PREPARE p FROM 'SELECT 2'; \
     EXECUTE p; DEALLOCATE PREPARE p; END",
    "CREATE PROCEDURE d.cursor_loop() BEGIN DECLARE done INT DEFAULT 0; DECLARE x INT; \
     DECLARE c CURSOR FOR SELECT id FROM d.t WHERE id < 3; \
     DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1; \
     OPEN c; WHILE done = 0 DO FETCH c INTO x; END WHILE; CLOSE c; END",
    "CREATE FUNCTION d.f(n INT) RETURNS INT BEGIN DECLARE r INT; \
     SELECT COUNT(*) INTO r FROM d.t WHERE id <= n; RETURN r; END",
    "CREATE FUNCTION d.bad() RETURNS INT BEGIN SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'no'; \
     RETURN 1; END",
    "CREATE VIEW d.view_of_t AS SELECT id FROM d.t",
];

macro_rules! cases {
    ($($group:literal { $($name:literal $note:literal $run:expr;)* })*) => {
        pub const CASES: &[Case] = &[$($(Case { group: $group, name: $name, note: $note, run: $run },)*)*];
    };
}

fn queries(mut raw: Raw, statements: &[&str]) -> Option<Raw> {
    for sql in statements {
        raw.query(sql).expect("an answer");
    }
    Some(raw)
}

cases! {
    "Text protocol" {
        "Statements" "" |_, s| queries(s, &[
            "SELECT 1", "SELECT * FROM d.t WHERE id < 4", "UPDATE d.t SET v = 'z' WHERE id = 5",
            "INSERT INTO d.log (v) VALUES ('a'), ('b')", "DELETE FROM d.log", "DO 1",
            "SELECT 1 FROM d.t WHERE id = 99",
        ]);
        "Errors" "" |_, s| queries(s, &[
            "SELECT * FROM d.nosuch", "INSERT INTO d.t VALUES (1, 'x')", "SELEKT 1", "SELECT nosuch",
            "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'mine', MYSQL_ERRNO = 30001",
            "SIGNAL SQLSTATE 'AB123'",
        ]);
        "An error while rows are sent" "" |_, s| queries(s, &[
            "SELECT (SELECT v FROM d.t WHERE id <= x.id) FROM d.t x ORDER BY x.id",
        ]);
        "Empty statement" "" |_, s| queries(s, &[""]);
        "Blanks, comments and semicolons only" "" |_, s| queries(s, &["   ", "/* nothing */", "-- nothing", ";"]);
        "Blanks and a semicolon around" "" |_, s| queries(s, &["  SELECT 1  ;  ", "/* a */ SELECT 2 /* b */"]);
        "A NUL, controls, and bytes that are not of the character set" "" |_, mut s| {
            s.query(b"SELECT 'a\0b\x01\x1f\x7f\xff\xfe'").expect("an answer");
            Some(s)
        };
        "SET STATEMENT" "" |_, s| queries(s, &[
            "SET STATEMENT max_statement_time = 10 FOR SELECT 1",
            "SET STATEMENT sort_buffer_size = 100000 FOR SELECT * FROM d.nosuch",
        ]);
        "sql_log_off does not stop the record" "" |_, s| queries(s, &["SET SESSION sql_log_off = 1", "SELECT 1"]);
        "XA" "" |_, s| queries(s, &[
            "XA START 'x'", "UPDATE d.t SET v = 'xa' WHERE id = 1", "XA END 'x'", "XA PREPARE 'x'",
            "XA COMMIT 'x'", "XA COMMIT 'x'",
        ]);
        "Transactions" "" |_, s| queries(s, &[
            "BEGIN", "UPDATE d.t SET v = 'y' WHERE id = 1", "SAVEPOINT a", "ROLLBACK TO a", "COMMIT",
        ]);
        "LOCK TABLES, HANDLER, ANALYZE, EXPLAIN" "" |_, s| queries(s, &[
            "LOCK TABLES d.t READ", "UNLOCK TABLES", "USE d", "HANDLER t OPEN", "HANDLER t READ FIRST",
            "HANDLER t CLOSE", "EXPLAIN SELECT * FROM d.t", "ANALYZE SELECT * FROM d.t",
            "ANALYZE TABLE d.log",
        ]);
        "CREATE TABLE … SELECT" "" |_, s| queries(s, &[
            "CREATE TEMPORARY TABLE d.tmp AS SELECT * FROM d.t", "DROP TABLE d.tmp",
        ]);
        "INSERT … SELECT and RETURNING" "" |_, s| queries(s, &[
            "INSERT INTO d.log (v) SELECT v FROM d.t WHERE id < 3",
            "INSERT INTO d.log (v) VALUES ('r') RETURNING v", "DELETE FROM d.log",
        ]);
        "Query cache" "The second statement is answered from the cache." |_, s| queries(s, &[
            "SELECT v FROM d.t WHERE id = 3", "SELECT v FROM d.t WHERE id = 3",
        ]);
        "LOAD DATA" "" |w, s| {
            let file = w.directory.join("data/d/load.csv");
            std::fs::write(&file, "10\tten\n11\televen\n").expect("writing");
            let mut s = queries(s, &["CREATE TEMPORARY TABLE d.l (id INT, v TEXT)", "USE d"])?;
            s.query("LOAD DATA INFILE 'load.csv' INTO TABLE l").expect("an answer");
            s.query("LOAD DATA INFILE 'nosuch.csv' INTO TABLE l").expect("an answer");
            Some(s)
        };
        "LOAD DATA LOCAL" "" |_, mut s| {
            s.must(&["CREATE TEMPORARY TABLE d.l (id INT, v TEXT)"]);
            for name in ["/dev/null", "/proc/sys/kernel/ostype"] {
                s.query(format!("LOAD DATA LOCAL INFILE '{name}' INTO TABLE d.l (v)")).expect("an answer");
            }
            Some(s)
        };
        "SELECT INTO" "" |_, s| queries(s, &[
            "USE d", "SELECT id, v INTO OUTFILE 'out.csv' FROM d.t WHERE id < 3",
            "SELECT id INTO OUTFILE 'out.csv' FROM d.t", "SELECT 'x' INTO DUMPFILE 'out.bin'",
            "SELECT id, v INTO @a, @b FROM d.t WHERE id = 1", "SELECT v INTO @a FROM d.t",
        ]);
        "EXPLAIN and ANALYZE as JSON, of changes and of other sessions" "" |_, s| queries(s, &[
            "EXPLAIN FORMAT=JSON SELECT * FROM d.t", "ANALYZE FORMAT=JSON SELECT * FROM d.t",
            "EXPLAIN UPDATE d.t SET v = 'e' WHERE id = 1", "ANALYZE UPDATE d.t SET v = 'e' WHERE id = 1",
            "SHOW EXPLAIN FOR 999999999",
        ]);
        "Sequences" "" |_, s| queries(s, &[
            "CREATE SEQUENCE d.s", "SELECT NEXT VALUE FOR d.s", "DO SETVAL(d.s, 100)", "DROP SEQUENCE d.s",
        ]);
        "XA in two sessions" "The second session commits what the first one has prepared." |w, s| {
            let first = queries(w.root(), &[
                "XA START 'two'", "UPDATE d.t SET v = 'xa' WHERE id = 2", "XA END 'two'", "XA PREPARE 'two'",
            ])?;
            let conn = first.conn;
            drop(first);
            w.wait_until_gone(conn);
            w.shown.borrow_mut().push(conn);
            queries(s, &["XA RECOVER", "XA COMMIT 'two'"])
        };
    }
    "Several statements in one packet" {
        "All succeed" "" |_, s| queries(s, &["SELECT 1; SELECT 2;  UPDATE d.t SET v = 'm' WHERE id = 1"]);
        "A semicolon and blanks at the end" "" |_, s| queries(s, &["SELECT 1; SELECT 2 ; "]);
        "The second one fails" "The statements behind it are neither run nor recorded." |_, s| queries(s, &[
            "SELECT 1; SELECT * FROM d.nosuch; SELECT 3",
        ]);
        "The second one does not parse" "" |_, s| queries(s, &["SELECT 1; SELEKT 2; SELECT 3"]);
        "The first one fails" "" |_, s| queries(s, &["SELECT * FROM d.nosuch; SELECT 2"]);
        "With a CALL" "" |_, s| queries(s, &["SELECT 1; CALL d.nested(); SELECT 3"]);
        "With SQL PREPARE and EXECUTE" "The server does not report where an `EXECUTE` ends in its packet: its line has the rest of \
            it." |_, s| queries(s, &[
            "PREPARE p FROM 'SELECT 2'; EXECUTE p; DEALLOCATE PREPARE p; SELECT 4",
        ]);
        "With EXECUTE IMMEDIATE" "" |_, s| queries(s, &["SELECT 1; EXECUTE IMMEDIATE 'SELECT 2'; SELECT 3"]);
        "The same text twice" "" |_, s| queries(s, &["SELECT 1;SELECT 1;SELECT 1"]);
        "A comment before each" "" |_, s| queries(s, &["/* a */ SELECT 1; /* b */ SELECT 2; -- c\nSELECT 3"]);
        "Killed in the middle" "" |w, mut s| {
            s.begin(com::QUERY, b"SELECT 1; SELECT SLEEP(100); SELECT 3").expect("sending");
            w.wait_for(s.conn, "state = 'User sleep'");
            w.root().must(&[&format!("KILL QUERY {}", s.conn)]);
            s.finish(com::QUERY).expect("an answer");
            Some(s)
        };
        "Connection killed in the middle" "" |w, mut s| {
            s.begin(com::QUERY, b"SELECT 1; SELECT SLEEP(100); SELECT 3").expect("sending");
            w.wait_for(s.conn, "state = 'User sleep'");
            w.root().must(&[&format!("KILL CONNECTION {}", s.conn)]);
            w.wait_until_gone(s.conn);
            None
        };
        "More text than is kept ahead" "Up to 4 KiB of the rest of a packet are recorded ahead; the line has \
            all of it." |_, mut s| {
            let long = "x".repeat(4200);
            s.query(format!("SELECT 1; SELECT LENGTH('{long}') /* long */; SELECT 3")).expect("an answer");
            Some(s)
        };
    }
    "Prepared statements, binary protocol" {
        "Prepare, Execute, Close" "" |_, mut s| {
            let id = s.prepare("SELECT v FROM d.t WHERE id = ?").expect("an answer").expect("prepared");
            s.execute(id, &[Some(b"1")], false).expect("an answer");
            s.execute(id, &[Some(b"'; DROP TABLE d.t; -- ")], false).expect("an answer");
            s.execute(id, &[None], false).expect("an answer");
            s.command(com::STMT_CLOSE, &id.to_le_bytes()).expect("sent");
            Some(s)
        };
        "Errors" "For an unknown statement number the server reports only the error: the line has no `conn_seq`,\n\
            command and identity." |_, mut s| {
            s.prepare("SELEKT ?").expect("an answer").expect_err("an error");
            s.prepare("SELECT * FROM d.nosuch").expect("an answer").expect_err("an error");
            let id = s.prepare("INSERT INTO d.t VALUES (?, ?)").expect("an answer").expect("prepared");
            s.execute(id, &[Some(b"1"), Some(b"twice")], false).expect("an answer");
            s.execute(999, &[], false).expect("an answer");
            Some(s)
        };
        "Reset, Close of an unknown one" "" |_, mut s| {
            let id = s.prepare("SELECT 1").expect("an answer").expect("prepared");
            s.command(com::STMT_RESET, &id.to_le_bytes()).expect("an answer");
            s.command(com::STMT_RESET, &999_u32.to_le_bytes()).expect("an answer");
            s.command(com::STMT_CLOSE, &999_u32.to_le_bytes()).expect("sent");
            Some(s)
        };
        "Cursor and Fetch" "" |_, mut s| {
            let id = s.prepare("SELECT id FROM d.t").expect("an answer").expect("prepared");
            s.execute(id, &[], true).expect("an answer");
            for rows in [2_u32, 10] {
                s.command(com::STMT_FETCH, &[id.to_le_bytes(), rows.to_le_bytes()].concat()).expect("an answer");
            }
            s.command(com::STMT_FETCH, &[999_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat()).expect("an answer");
            Some(s)
        };
        "Long data" "" |_, mut s| {
            let id = s.prepare("INSERT INTO d.blobs VALUES (?)").expect("an answer").expect("prepared");
            let piece = [&id.to_le_bytes()[..], &[0, 0], b"piece "].concat();
            s.command(com::STMT_SEND_LONG_DATA, &piece).expect("sent");
            s.command(com::STMT_SEND_LONG_DATA, &piece).expect("sent");
            // The type of a blob, without a value: it was already sent.
            let body = [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0, 0, 1, 0xfc, 0]].concat();
            s.command(com::STMT_EXECUTE, &body).expect("an answer");
            Some(s)
        };
        "Array binding" "INSERT is executed once for all rows of parameters, UPDATE once for each row." |_, mut s| {
            for sql in ["INSERT INTO d.log (v) VALUES (?)", "UPDATE d.log SET v = 'x' WHERE v = ?"] {
                let id = s.prepare(sql).expect("an answer").expect("prepared");
                // Types are sent; one parameter, two rows: no indicator, a text.
                let mut body = [&id.to_le_bytes()[..], &[0x80, 0, 0xfd, 0]].concat();
                for text in [&b"one"[..], b"two"] {
                    body.push(0);
                    body.extend(tacho_tests::raw::length_encoded(text));
                }
                s.command(com::STMT_BULK_EXECUTE, &body).expect("an answer");
            }
            Some(s)
        };
        "A CALL" "" |_, mut s| {
            let id = s.prepare("CALL d.nested()").expect("an answer").expect("prepared");
            s.execute(id, &[], false).expect("an answer");
            Some(s)
        };
        "OUT parameters" "" |_, mut s| {
            let id = s.prepare("CALL d.gives(?, ?)").expect("an answer").expect("prepared");
            s.execute(id, &[Some(b"1"), Some(b"2")], false).expect("an answer");
            Some(s)
        };
        "Prepared anew because the table was changed" "The log shows the server's second \
            attempt; the client does not get error 1615." |w, mut s| {
            w.root().must(&["CREATE TABLE d.changed (a INT)"]);
            let id = s.prepare("SELECT * FROM d.changed").expect("an answer").expect("prepared");
            s.execute(id, &[], false).expect("an answer");
            w.root().must(&["ALTER TABLE d.changed ADD b INT"]);
            s.execute(id, &[], false).expect("an answer");
            w.root().must(&["DROP TABLE d.changed"]);
            s.execute(id, &[], false).expect("an answer");
            Some(s)
        };
    }
    "Prepared statements in SQL" {
        "PREPARE, EXECUTE, DEALLOCATE" "" |_, s| queries(s, &[
            "PREPARE p FROM 'SELECT v FROM d.t WHERE id = ?'", "SET @a = 1", "EXECUTE p USING @a",
            "EXECUTE p USING 2", "DEALLOCATE PREPARE p",
        ]);
        "Errors" "If the inner statement fails, the server reports no end of `EXECUTE`: its line has the inner error\n\
            and no figures." |_, s| queries(s, &[
            "PREPARE p FROM 'SELEKT 1'", "PREPARE p FROM 'SELECT * FROM d.nosuch'", "EXECUTE nosuch",
            "DEALLOCATE PREPARE nosuch", "PREPARE p FROM 'INSERT INTO d.t VALUES (1, 1)'", "EXECUTE p",
            "EXECUTE p USING 1", "SELECT 1",
        ]);
        "EXECUTE IMMEDIATE" "" |_, s| queries(s, &[
            "EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE IMMEDIATE CONCAT('SELECT', ' 2')",
            "EXECUTE IMMEDIATE 'SELEKT 1'", "EXECUTE IMMEDIATE 'SELECT * FROM d.nosuch'",
            "EXECUTE IMMEDIATE 'INSERT INTO d.t VALUES (1, 1)'", "EXECUTE IMMEDIATE 'CALL d.leaf()'",
            "SELECT 'last'",
        ]);
        "In a procedure" "" |_, s| queries(s, &["CALL d.dynamic()"]);
    }
    "Stored programs" {
        "CALL" "" |_, s| queries(s, &["CALL d.leaf()"]);
        "Nested" "" |_, s| queries(s, &["CALL d.nested()"]);
        "Recursion" "" |_, s| queries(s, &["CALL d.recursive(9)"]);
        "A handler that swallows an error" "" |_, s| queries(s, &["CALL d.swallows()"]);
        "An error inside" "The message is in the line of the statement that failed." |_, s| queries(s, &["CALL d.fails()", "SELECT 'last'"]);
        "OUT parameters" "" |_, s| queries(s, &["SET @b = 1", "CALL d.gives(@a, @b)", "SELECT @a, @b"]);
        "A cursor" "" |_, s| queries(s, &["CALL d.cursor_loop()"]);
        "An unknown procedure" "" |_, s| queries(s, &["CALL d.nosuch()"]);
        "Functions" "" |_, s| queries(s, &[
            "SELECT d.f(2)", "SELECT id, d.f(id) FROM d.t WHERE id < 3", "SELECT d.bad()", "SELECT 'last'",
        ]);
        "Triggers" "" |_, s| queries(s, &[
            "INSERT INTO d.triggered VALUES (1), (2)", "INSERT INTO d.triggered VALUES (1)",
            "DELETE FROM d.triggered",
        ]);
        "Compound statement" "" |_, s| queries(s, &[
            "BEGIN NOT ATOMIC DECLARE x INT; SELECT 1 INTO x; SELECT x; END",
            "BEGIN NOT ATOMIC SELECT 1; SIGNAL SQLSTATE '45000'; END",
        ]);
    }
    "Ends by force" {
        "KILL QUERY" "" |w, mut s| {
            s.begin(com::QUERY, b"SELECT SLEEP(100)").expect("sending");
            w.wait_for(s.conn, "state = 'User sleep'");
            w.root().must(&[&format!("KILL QUERY {}", s.conn)]);
            s.finish(com::QUERY).expect("an answer");
            s.begin(com::QUERY, b"SELECT * FROM d.t WHERE SLEEP(100)").expect("sending");
            w.wait_for(s.conn, "state = 'User sleep'");
            w.root().must(&[&format!("KILL QUERY {}", s.conn)]);
            s.finish(com::QUERY).expect("an answer");
            Some(s)
        };
        "KILL CONNECTION" "" |w, mut s| {
            s.begin(com::QUERY, b"SELECT SLEEP(100)").expect("sending");
            w.wait_for(s.conn, "state = 'User sleep'");
            w.root().must(&[&format!("KILL CONNECTION {}", s.conn)]);
            w.wait_until_gone(s.conn);
            None
        };
        "KILL CONNECTION in a procedure" "" |w, mut s| {
            s.must(&["CREATE PROCEDURE d.sleeps() BEGIN SELECT 'before'; DO SLEEP(100); END"]);
            s.begin(com::QUERY, b"CALL d.sleeps()").expect("sending");
            w.wait_for(s.conn, "state = 'User sleep'");
            w.root().must(&[&format!("KILL CONNECTION {}", s.conn)]);
            w.wait_until_gone(s.conn);
            None
        };
        "KILL of an idle connection" "The error is the reason why the session ended." |w, s| {
            // A session that has not begun to wait for a command ends without an error.
            w.wait_for(s.conn, "command = 'Sleep' AND time_ms > 1000");
            w.root().must(&[&format!("KILL {}", s.conn)]);
            w.wait_until_gone(s.conn);
            None
        };
        "KILL of oneself" "" |w, mut s| {
            let _ = s.query("KILL CONNECTION_ID()");
            w.wait_until_gone(s.conn);
            None
        };
        "max_statement_time" "" |_, s| queries(s, &[
            "SET STATEMENT max_statement_time = 0.01 FOR SELECT * FROM d.t WHERE SLEEP(100)",
        ]);
        "Lock wait timeout" "" |w, s| {
            let mut other = w.root();
            other.must(&["BEGIN", "UPDATE d.t SET v = 'locked' WHERE id = 4"]);
            queries(s, &["UPDATE d.t SET v = 'wants' WHERE id = 4"])
        };
        "Deadlock" "" |w, mut s| {
            s.must(&["BEGIN", "UPDATE d.t SET v = 'one' WHERE id = 1"]);
            let mut other = w.root();
            // More rows changed: the other one is not chosen to be rolled back.
            other.must(&["SET innodb_lock_wait_timeout = 60", "BEGIN", "UPDATE d.t SET v = 'two' WHERE id > 1",
                "INSERT INTO d.log (v) VALUES ('1'), ('2'), ('3'), ('4'), ('5'), ('6')"]);
            other.begin(com::QUERY, b"UPDATE d.t SET v = 'two' WHERE id = 1").expect("sending");
            w.wait_for(other.conn, "id IN (SELECT trx_mysql_thread_id FROM information_schema.innodb_trx \
                WHERE trx_state = 'LOCK WAIT')");
            s.query("UPDATE d.t SET v = 'one' WHERE id = 2").expect("an answer");
            other.finish(com::QUERY).expect("an answer");
            other.must(&["ROLLBACK"]);
            Some(s)
        };
        "The client goes away while rows are sent" "" |w, mut s| {
            s.must(&["USE d"]);
            s.begin(com::QUERY, b"SELECT REPEAT('x', 1000000) FROM seq_1_to_1000").expect("sending");
            s.read_packet().expect("a packet");
            let conn = s.conn;
            drop(s);
            w.wait_until_gone(conn);
            None
        };
        "The client goes away while a statement runs" "" |w, mut s| {
            s.begin(com::QUERY, b"SELECT SLEEP(0.3)").expect("sending");
            let conn = s.conn;
            w.wait_for(conn, "state = 'User sleep'");
            drop(s);
            w.wait_until_gone(conn);
            None
        };
        "The client goes away without a word" "" |w, s| {
            let conn = s.conn;
            drop(s);
            w.wait_until_gone(conn);
            None
        };
    }
    "Sessions" {
        "Login to a database, over the socket and over TCP" "" |w, s| {
            let login = Login { db: Some(b"d"), ..Login::new("root") };
            w.shown(Raw::login(&w.socket, &login));
            w.shown(Raw::login_tcp(w.port, &Login::new("root")));
            Some(s)
        };
        "Unknown user, wrong password" "" |w, s| {
            w.shown(Raw::login(&w.socket, &Login { response: &[b'x'; 20], ..Login::new("nosuch") }));
            w.shown(Raw::login(&w.socket, &Login { response: &[b'x'; 20], ..Login::new("root") }));
            Some(s)
        };
        "Unknown database" "" |w, s| {
            w.shown(Raw::login(&w.socket, &Login { db: Some(b"nosuch"), ..Login::new("root") }));
            Some(s)
        };
    }
    "Commands without text" {
        "Ping, Statistics, Process list, Debug, Refresh, Set option" "" |_, mut s| {
            for (command, body) in [
                (com::PING, &b""[..]), (com::STATISTICS, b""), (com::PROCESS_INFO, b""), (com::DEBUG, b""),
                (com::REFRESH, b"\x04"), (com::SET_OPTION, b"\x01\0"), (com::SET_OPTION, b"\x00\0"),
                (com::SET_OPTION, b"\x09\0"),
            ] {
                s.command(command, body).expect("an answer");
            }
            Some(s)
        };
        "Init DB" "" |_, mut s| {
            s.command(com::INIT_DB, b"d").expect("an answer");
            s.command(com::INIT_DB, b"nosuch").expect("an answer");
            queries(s, &["USE mysql", "USE nosuch"])
        };
        "Field list" "" |_, mut s| {
            s.command(com::INIT_DB, b"d").expect("an answer");
            s.command(com::FIELD_LIST, b"t\0").expect("an answer");
            s.command(com::FIELD_LIST, b"nosuch\0%").expect("an answer");
            Some(s)
        };
        "Process kill" "" |w, mut s| {
            let victim = w.root();
            s.command(com::PROCESS_KILL, &(victim.conn as u32).to_le_bytes()).expect("an answer");
            s.command(com::PROCESS_KILL, &999_999_u32.to_le_bytes()).expect("an answer");
            w.wait_until_gone(victim.conn);
            Some(s)
        };
        "Unknown commands" "" |_, mut s| {
            for command in [com::SLEEP, com::CREATE_DB, 99] {
                s.command(command, b"x").expect("an answer");
            }
            Some(s)
        };
        "Change user" "`change_user` has the new identity, `Change user` is the end of the command." |w, mut s| {
            w.root().must(&["CREATE USER changed@localhost"]);
            s.query("SELECT 1").expect("an answer");
            assert_eq!(s.change_user(b"changed", b"", b"").expect("an answer"), 0);
            s.query("SELECT CURRENT_USER()").expect("an answer");
            Some(s)
        };
        "Change user, refused" "The session keeps its identity." |_, mut s| {
            assert_ne!(s.change_user(b"nosuch", b"xxxxxxxxxxxxxxxxxxxx", b"").expect("an answer"), 0);
            queries(s, &["SELECT CURRENT_USER()"])
        };
        "Reset connection" "" |_, mut s| {
            s.query("SET @a = 1").expect("an answer");
            s.command(com::RESET_CONNECTION, b"").expect("an answer");
            queries(s, &["SELECT @a"])
        };
        "Register and binlog dump" "" |w, mut s| {
            s.must(&["SET @master_binlog_checksum = @@GLOBAL.binlog_checksum",
                "SET @mariadb_slave_capability = 4"]);
            let mut body = 77_u32.to_le_bytes().to_vec();
            body.extend([0; 3]);
            body.extend([0; 10]);
            s.command(com::REGISTER_SLAVE, &body).expect("an answer");
            // From the beginning, and an end instead of waiting for more.
            let mut body = 4_u32.to_le_bytes().to_vec();
            body.extend(1_u16.to_le_bytes());
            body.extend(77_u32.to_le_bytes());
            body.extend(b"binlog.000001");
            s.command(com::BINLOG_DUMP, &body).expect("an answer");
            // The server ends such a session.
            w.wait_until_gone(s.conn);
            None
        };
    }
}
