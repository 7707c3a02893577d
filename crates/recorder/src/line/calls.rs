//! Whether a statement may access tables that its server never reports.
//!
//! MySQL does not report the tables of stored functions. For rules by table, this code therefore
//! looks for calls in the statement's text: anything before a parenthesis counts as a call, unless
//! it is one of the server's own words or functions, or the target of an INSERT. MySQL 8.0 does not
//! report the tables that foreign keys change either.

use tacho_ring::codec::{STRING_USER, View};
use tacho_sql::digest::Normaliser;
use tacho_sql::{Doubt, Mode};

use super::parts::TextKind;

/// What the server does not report, beyond the tables of a statement: one field for each letter
/// after the access of a table record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    /// `L`: tables that the session had already locked.
    pub(super) locked: bool,
    /// `F`: tables of stored functions.
    functions: bool,
    /// `K`: those that foreign keys change.
    cascades: bool,
}

impl Gaps {
    /// Adds the letters of a table record.
    pub(super) fn note(&mut self, table: &View<'_>) {
        for letter in table.string(STRING_USER).iter().skip(1) {
            match letter {
                b'L' => self.locked = true,
                b'F' => self.functions = true,
                b'K' => self.cascades = true,
                _ => {}
            }
        }
    }

    /// Whether a statement that had not locked its tables before may access tables that were not
    /// reported.
    pub(super) fn may_hide(
        self,
        sql_command: &[u8],
        text: &[u8],
        kind: Option<&TextKind>,
        normaliser: &mut Normaliser,
    ) -> bool {
        if !self.functions && !self.cascades {
            return false;
        }
        let Some(mode) = kind.and_then(|kind| kind.setting.digest_mode()) else { return true };
        let mut is_read = false;
        for mode in modes(text, mode) {
            let read = normaliser.normalise(text, mode, usize::MAX);
            if read.is_given_up || read.is_cut || read.out_of_memory {
                return true;
            }
            // The server parsed it in another mode.
            if read.is_broken {
                continue;
            }
            is_read = true;
            if self.functions && calls_function(read.text)
                || self.cascades && changes_referred_rows(sql_command, read.text)
            {
                return true;
            }
        }
        !is_read
    }
}

/// The modes in which the server may have read a text. The client sets `sql_mode`: a literal in one
/// mode may be a call in another.
fn modes(text: &[u8], mode: Mode) -> impl Iterator<Item = Mode> {
    let has = [text.contains(&b'\\'), text.contains(&b'"')];
    let all = [(true, true), (false, true), (true, false), (false, false)];
    let all = all
        .into_iter()
        .filter(move |(escapes, is_literal)| (*escapes || has[0]) && (*is_literal || has[1]));
    all.map(move |(escapes, is_literal)| Mode {
        escapes,
        escapes_in_double: escapes && is_literal,
        ansi_quotes: !is_literal,
        // The server may or may not execute a versioned comment.
        doubt: Doubt::StopButEscapes,
        ..mode
    })
}

/// Whether the statement changes or deletes rows that others may refer to.
fn changes_referred_rows(sql_command: &[u8], normalised: &[u8]) -> bool {
    match sql_command {
        b"insert" | b"insert_select" => Words(normalised).any(|word| word == b"DUPLICATE"),
        b"select" | b"truncate" | b"ha_read" => false,
        _ => true,
    }
}

/// Whether a normalised statement may call a function that is not the server's.
fn calls_function(normalised: &[u8]) -> bool {
    let mut before: [&[u8]; 4] = [&[]; 4];
    for word in Words(normalised) {
        if word.first() == Some(&b'(') && is_call(before) {
            return true;
        }
        before.rotate_left(1);
        before[3] = word;
    }
    false
}

/// Whether these words, which precede a parenthesis, make it a call; the last word is next to it.
fn is_call(before: [&[u8]; 4]) -> bool {
    let [third, second, first, name] = before;
    let is_name = |word: &[u8]| {
        word.first()
            .is_some_and(|b| *b == b'`' || *b == b'_' || b.is_ascii_alphabetic() || *b > 127)
    };
    // Functions of the server that the normaliser joins with the parenthesis, such as `MAX(`, are
    // not names.
    if !is_name(name) || name.ends_with(b"(") {
        return false;
    }
    let is_qualified = first == b".";
    let introducer = if is_qualified && is_name(second) { third } else { first };
    if INTRODUCERS.contains(&introducer) {
        return false;
    }
    let own = match name {
        [b'`', plain @ .., b'`'] => is_among(OWN_FUNCTIONS, plain),
        word => is_among(OWN_WORDS, word),
    };
    is_qualified || !own
}

fn is_among(list: &[u8], word: &[u8]) -> bool {
    list.split(|byte| *byte == b' ').any(|one| one.eq_ignore_ascii_case(word))
}

/// Words of a normalised statement. A name in backquotes is one word, whatever it contains.
struct Words<'t>(&'t [u8]);

impl<'t> Iterator for Words<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        let start = self.0.iter().position(|byte| *byte != b' ')?;
        let rest = self.0.get(start..)?;
        let mut is_quoted = false;
        let end = rest
            .iter()
            .position(|byte| {
                is_quoted ^= *byte == b'`';
                *byte == b' ' && !is_quoted
            })
            .unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

/// These words precede a table and its columns in parentheses.
const INTRODUCERS: [&[u8]; 7] =
    [b"INTO", b"INSERT", b"REPLACE", b"IGNORE", b"LOW_PRIORITY", b"HIGH_PRIORITY", b"DELAYED"];

/// Words of the grammar, including functions that are grammar words.
const OWN_WORDS: &[u8] =
    b"ALL AND ANY AS ASCII BETWEEN BINARY BY CASE CHARACTER COALESCE CONVERT DATE DAY \
    DECIMAL DISTINCT DISTINCTROW DIV ELSE EXCEPT EXISTS FORMAT FROM HAVING HOUR IF IN \
    INDEX INSERT INTERSECT INTERVAL IS JOIN KEY LEFT LIKE LIMIT MINUTE MOD MONTH NOT ON \
    OR OVER PARTITION QUARTER REGEXP REPEAT REPLACE RIGHT ROW ROW_NUMBER SECOND SELECT \
    SET SOME THEN TRUNCATE UNION USING VALUES WHEN WHERE YEAR";

/// Functions of the server that are not grammar words. MySQL accepts another function with one of
/// these names only if the call names its database.
const OWN_FUNCTIONS: &[u8] =
    b"abs ceil ceiling char_length concat concat_ws conv crc32 date_format datediff exp \
    field find_in_set floor from_unixtime greatest hex ifnull instr isnull json_array \
    json_contains json_extract json_object json_unquote last_insert_id lcase least \
    length ln locate log lower lpad ltrim md5 nullif pow power rand round rpad rtrim \
    sha1 sha2 sign sqrt strcmp str_to_date substring_index timediff to_days ucase unhex \
    unix_timestamp upper";

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(sql: &str) -> Vec<u8> {
        let kind = TextKind::of(b"utf8mb4", b"d", b"Query");
        let mode = kind.setting.digest_mode().expect("a mode");
        Normaliser::default().normalise(sql.as_bytes(), mode, usize::MAX).text.to_vec()
    }

    #[test]
    fn every_call_of_a_stored_function_is_found() {
        for sql in [
            "SELECT app.f() FROM t",
            "SELECT app . f /* x */ () FROM t",
            "SELECT f() FROM t",
            "SELECT `f`() FROM t",
            "SELECT f\n-- max\n() FROM t",
            "SELECT concat(a, f(1)) FROM t",
            "SELECT app.concat(a) FROM t",
            "SELECT `if`(1) FROM t",
            "SELECT status() FROM t",
            "SELECT max (id) FROM t",
            "SELECT `max`(id) FROM t",
            "SELECT é() FROM t",
            "SELECT _f() FROM t",
            "SELECT `a( b`(1) FROM t",
            "/*!50000 SELECT app.f() */ FROM t",
            "INSERT INTO t (a) VALUES (f())",
            "INSERT INTO t (a) SELECT app.f(a) FROM t",
            "UPDATE t SET a = f(?)",
            "DELETE FROM t WHERE a IN (SELECT f(1))",
        ] {
            assert!(calls_function(&normalised(sql)), "{sql}");
        }
    }

    fn may_hide(sql: &str) -> bool {
        let kind = TextKind::of(b"utf8mb4", b"d", b"Query");
        let gaps = Gaps { functions: true, ..Gaps::default() };
        gaps.may_hide(b"select", sql.as_bytes(), Some(&kind), &mut Normaliser::default())
    }

    #[test]
    fn no_mode_hides_a_call() {
        for sql in [
            // A literal, except under NO_BACKSLASH_ESCAPES.
            "SELECT '\\', app.f(), 1 FROM t -- '",
            "SELECT \"\\\", app.f(), 1 FROM t -- \"",
            // A literal, except under ANSI_QUOTES.
            "SELECT \"f\"() FROM t",
            "SELECT \"app\".\"f\"() FROM t",
            "SELECT \"'\", app.f() AS \"'\" FROM t",
            // The server may skip these comments.
            "SELECT /*!99999 ' */ app.f() FROM t /* ' */",
            "SELECT /*M!999999 -- */ app.f() FROM t",
            // Not valid in any mode.
            "SELECT 'f",
        ] {
            assert!(may_hide(sql), "{sql}");
        }
        for sql in [
            "SELECT 'it\\'s', \"a\" FROM t",
            "SELECT a FROM t WHERE b = 'C:\\\\x' AND \"c\" IN (1, 2)",
            "SELECT /*!40001 SQL_NO_CACHE */ * FROM t",
        ] {
            assert!(!may_hide(sql), "{sql}");
        }
    }

    #[test]
    fn usual_statements_call_no_stored_function() {
        for sql in [
            "SELECT MAX(id), count(*), now(), coalesce(a, 1), if(a, b, c), Lower(a) FROM t",
            "SELECT a FROM t WHERE a IN (1, 2) AND (b OR c) AND NOT (d) AND EXISTS (SELECT 1)",
            "INSERT INTO t (a, b) VALUES (1, 2), (3, 4) ON DUPLICATE KEY UPDATE b = VALUES(b)",
            "INSERT INTO d.t (a) SELECT 1",
            "INSERT IGNORE t (a) VALUES (now())",
            "REPLACE INTO `t` (a) VALUES ('f(')",
            "UPDATE t SET a = (SELECT 1), v = date_add(now(), INTERVAL 1 DAY)",
            "SELECT 'f(', \"f(\" FROM t -- f()",
            "SELECT a FROM t USE INDEX (i) JOIN u USING (a) ORDER BY a LIMIT 3",
            "SELECT row_number() OVER (PARTITION BY a), cast(a AS CHAR(10)) FROM t PARTITION (p0)",
            "SELECT substring(a, 1, 2), left(a, 1), replace(a, 'b', 'c'), json_extract(a, '$.b')",
        ] {
            let text = normalised(sql);
            assert!(!calls_function(&text), "{sql}: {}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn statements_that_may_change_a_child_table() {
        for (sql_command, sql, expected) in [
            ("delete", "DELETE FROM t", true),
            ("update", "UPDATE t SET a = 1", true),
            ("replace", "REPLACE INTO t VALUES (1)", true),
            ("insert", "INSERT INTO t VALUES (1)", false),
            ("insert", "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2", true),
            ("select", "SELECT 1 FROM t", false),
        ] {
            assert_eq!(changes_referred_rows(sql_command.as_bytes(), &normalised(sql)), expected);
        }
    }
}
