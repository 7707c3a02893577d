//! Which parameters of a prepared statement are secrets: those whose literal would be one.
//!
//! Each placeholder is replaced by a literal that occurs nowhere else. If the rules remove it, its
//! parameter is a secret.

use std::borrow::Cow;

use memchr::memmem;

use super::lexer::{Kind, Lexer, Reading};
use super::{Setting, filter, secrets, url};

/// Begins such a literal; its number and [`END`] follow. It has the characters that make a literal
/// suspicious.
const BEGIN: &[u8] = b"':@=;";
const END: &[u8] = b";'";

/// Which parameters are secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretParams {
    /// None.
    None,
    /// All: the statement cannot be read in one way.
    All,
    /// For each placeholder.
    Of(Vec<bool>),
}

impl SecretParams {
    /// Whether the parameter with this number is one. A bulk execution has those of all rows, one
    /// row after the other.
    pub fn has(&self, index: usize) -> bool {
        match self {
            SecretParams::None => false,
            SecretParams::All => true,
            SecretParams::Of(all) => {
                // A parameter without a placeholder: the text is not the one that was prepared.
                index.checked_rem(all.len()).and_then(|at| all.get(at)).copied().unwrap_or(true)
            }
        }
    }
}

/// Which parameters of a statement are secrets because of where they are.
pub fn secret_params(sql: &[u8], setting: Setting) -> SecretParams {
    if setting.is_wide || setting.is_part {
        return SecretParams::All;
    }
    if !setting.in_mysql && !filter::suspects(sql) {
        return SecretParams::None;
    }
    let readings = Reading::all(sql, setting.mode.grouping);
    let [reading] = readings[..] else { return SecretParams::All };
    if memmem::find(sql, BEGIN).is_some() {
        return SecretParams::All;
    }
    let mut text = Vec::with_capacity(sql.len());
    let (mut count, mut done) = (0_usize, 0);
    for token in Lexer::new(sql, 0, reading) {
        if token.kind == Kind::Punct(b'?') {
            text.extend_from_slice(&sql[done..token.start]);
            text.extend_from_slice(BEGIN);
            text.extend_from_slice(count.to_string().as_bytes());
            text.extend_from_slice(END);
            (count, done) = (count + 1, token.end);
        }
    }
    text.extend_from_slice(&sql[done..]);
    let mut all = vec![true; count];
    let shown = secrets(&text, setting);
    for at in memmem::find_iter(&shown, BEGIN) {
        let rest = &shown[at + BEGIN.len()..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok());
        let is_shown = rest[digits..].starts_with(END);
        if let Some(is_secret) = number.and_then(|number: usize| all.get_mut(number)) {
            *is_secret &= !is_shown;
        }
    }
    SecretParams::Of(all)
}

/// Whether the value of a parameter has a secret, wherever it is: a URL with a password, or a
/// statement with one.
pub fn is_secret_param(value: &[u8], setting: Setting) -> bool {
    // Words, not places: the database matters to statements only.
    let setting = Setting { in_mysql: false, ..setting };
    url::has_password(value) || matches!(secrets(value, setting), Cow::Owned(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> SecretParams {
        secret_params(sql.as_bytes(), Setting::of(b"utf8mb4", b""))
    }

    #[test]
    fn a_parameter_is_a_secret_where_a_literal_is() {
        assert_eq!(of("SELECT * FROM t WHERE a = ?"), SecretParams::None);
        for (sql, all) in [
            ("SELECT AES_ENCRYPT(?, ?), ? FROM t", &[true, true, false][..]),
            ("SET @pwd = ?, @x = ?", &[true, false]),
            ("ALTER USER u IDENTIFIED BY ?", &[true]),
            ("SELECT 'a?b', ?, /* ? */ PASSWORD(?)", &[false, true]),
            ("INSERT INTO mysql.user VALUES (?, ?)", &[true, true]),
            ("UPDATE users SET password = ? WHERE id = ?", &[false, false]),
        ] {
            assert_eq!(of(sql), SecretParams::Of(all.to_vec()), "{sql}");
        }
    }

    #[test]
    fn what_can_be_read_in_several_ways_hides_all() {
        for sql in [
            "SELECT 'a\\', ? , PASSWORD(?)",
            "SELECT /*!50000 ?, */ PASSWORD(?)",
            "SELECT ':@=;0;', PASSWORD(?)",
        ] {
            assert_eq!(of(sql), SecretParams::All, "{sql}");
        }
        assert!(SecretParams::All.has(7) && !SecretParams::None.has(7));
        let of = SecretParams::Of(vec![false, true]);
        assert_eq!([0, 1, 2, 3].map(|index| of.has(index)), [false, true, false, true]);
        assert!(SecretParams::Of(Vec::new()).has(0), "there is no placeholder");
        let part = Setting::of(b"utf8mb4", b"").of_part();
        assert_eq!(secret_params(b"SELECT ?", part), SecretParams::All);
    }

    #[test]
    fn values_with_secrets_are_found() {
        let is_secret =
            |value: &str| is_secret_param(value.as_bytes(), Setting::of(b"utf8mb4", b"mysql"));
        for value in ["ftp://u:p@h/", "SET PASSWORD = 'x'", "DO 1; SET PASSWORD = 'y'"] {
            assert!(is_secret(value), "{value}");
        }
        for value in ["", "a text", "12:30", "me@example.com", "what a password is"] {
            assert!(!is_secret(value), "{value}");
        }
    }
}
