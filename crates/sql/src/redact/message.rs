//! Error messages without any literal.
//!
//! A message quotes its subject, and with SIGNAL all of it is the statement's own text, under any
//! error number. So no part of a message is copied: the output has the server's own words, from
//! this table, if the message begins with them.

use super::lexer::REDACTED;

/// Beginnings of messages, of MariaDB 10.11 in English (`sql/share/errmsg-utf8.txt`), up to the
/// quoted text, and of MySQL where they differ. Complete messages quote nothing.
const BEGINS: &[(u32, &str)] = &[
    (1022, "Can't write; duplicate key in table "),
    (1044, "Access denied for user "),
    (1045, "Access denied for user "),
    (1046, "No database selected"),
    (1048, "Column "),
    (1049, "Unknown database "),
    (1050, "Table "),
    (1051, "Unknown table "),
    (1054, "Unknown column "),
    (1060, "Duplicate column name "),
    (1061, "Duplicate key name "),
    (1062, "Duplicate entry "),
    (
        1064,
        "You have an error in your SQL syntax; check the manual that corresponds to your MariaDB \
         server version for the right syntax to use near ",
    ),
    (
        1064,
        "You have an error in your SQL syntax; check the manual that corresponds to your MySQL \
         server version for the right syntax to use near ",
    ),
    (1065, "Query was empty"),
    (1091, "Can't DROP "),
    (1094, "Unknown thread id: "),
    (1133, "Can't find any matching row in the user table"),
    (1136, "Column count doesn't match value count at row "),
    (1146, "Table "),
    (1193, "Unknown system variable "),
    (1205, "Lock wait timeout exceeded; try restarting transaction"),
    (1213, "Deadlock found when trying to get lock; try restarting transaction"),
    (1227, "Access denied; you need (at least one of) the "),
    (1231, "Variable "),
    (1242, "Subquery returns more than 1 row"),
    (1243, "Unknown prepared statement handler ("),
    (1264, "Out of range value for column "),
    (1292, "Truncated incorrect "),
    (1305, "FUNCTION "),
    (1305, "PROCEDURE "),
    (1317, "Query execution was interrupted"),
    (1365, "Division by 0"),
    (1366, "Incorrect "),
    (1396, "Operation ALTER USER failed for "),
    (1396, "Operation CREATE USER failed for "),
    (1406, "Data too long for column "),
    (1451, "Cannot delete or update a parent row: a foreign key constraint fails ("),
    (1452, "Cannot add or update a child row: a foreign key constraint fails ("),
    (1524, "Plugin "),
    (1819, "Your password does not satisfy the current policy requirements"),
    (1969, "Query execution was interrupted (max_statement_time exceeded)"),
    (3024, "Query execution was interrupted, maximum statement execution time exceeded"),
];

/// The server's own words of a message, and `<redacted>` instead of the rest.
pub fn without_literals(errno: u32, message: &[u8]) -> Vec<u8> {
    let known = BEGINS.iter().filter(|(number, _)| *number == errno);
    let begin = known.map(|(_, begin)| begin.as_bytes()).find(|begin| message.starts_with(begin));
    match begin {
        Some(begin) if begin.len() == message.len() => begin.to_vec(),
        Some(begin) => [begin, REDACTED].concat(),
        None => REDACTED.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_words_are_left() {
        let check = |errno, message: &str, expected: &str| {
            let text = without_literals(errno, message.as_bytes());
            assert_eq!(String::from_utf8_lossy(&text), expected);
        };
        check(1062, "Duplicate entry 'x' for key 'PRIMARY'", "Duplicate entry <redacted>");
        check(1046, "No database selected", "No database selected");
        check(
            1064,
            "You have an error in your SQL syntax; check the manual that corresponds to your MySQL \
             server version for the right syntax to use near ''x'' at line 1",
            "You have an error in your SQL syntax; check the manual that corresponds to your MySQL \
             server version for the right syntax to use near <redacted>",
        );
        check(1644, "x", "<redacted>");
        check(1062, "x", "<redacted>");
        check(1317, "", "<redacted>");
    }
}
