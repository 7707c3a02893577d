//! Parameters of a prepared statement as JSON, without secrets.

use tacho_record::charset::{Charset, Fidelity};
use tacho_record::{json, line};
use tacho_ring::params::{Param, Params};
use tacho_sql::redact::{self, Setting};

/// Replaces a parameter that is a secret.
const SECRET: &str = "<secret>";
/// Longer parameters were not written by a capture.
const PARAMS_BYTES_MAX: usize = 8 << 20;
/// Bytes of the longest character.
const CHAR_BYTES_MAX: usize = 4;

/// The array of the parameters in `text`, of the statement `sql` in this character set (`None`: it
/// is not known). `is_cut`: the last one may be cut.
pub(super) fn json(
    (text, is_cut): (&[u8], bool),
    sql: &[u8],
    setting: Setting,
    charset: Option<&'static Charset>,
) -> Vec<u8> {
    let secrets = redact::secret_params(sql, setting);
    let text = if text.len() <= PARAMS_BYTES_MAX { text } else { &[] };
    let mut out = vec![b'['];
    let mut params = Params::new(text).enumerate().peekable();
    while let Some((index, param)) = params.next() {
        if index > 0 {
            out.push(b',');
        }
        let is_hidden = secrets.has(index) || redact::is_secret_param(param.parts().1, setting);
        match param {
            Param::Null => out.extend_from_slice(b"null"),
            _ if is_hidden => line::write_string(&mut out, SECRET),
            Param::Number(number) if is_number(number) => out.extend_from_slice(number),
            Param::Number(bytes) | Param::Bytes(bytes) => write_bytes(&mut out, bytes),
            Param::Plain(text) => json::write_text_or_bytes(&mut out, text, Charset::UTF8MB4),
            Param::Text(text) => match charset {
                Some(charset) => {
                    let is_last = params.peek().is_none();
                    let text = if is_cut && is_last { whole(text, charset) } else { text };
                    json::write_text_or_bytes(&mut out, text, charset);
                }
                None => write_bytes(&mut out, text),
            },
            Param::Mark(mark) => {
                out.extend_from_slice(b"{\"indicator\":");
                json::write_text_or_bytes(&mut out, mark, Charset::UTF8MB4);
                out.push(b'}');
            }
        }
    }
    out.push(b']');
    out
}

/// Bytes of any kind: text if they look like it.
fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    if bytes.iter().any(is_control) {
        json::write_bytes(out, bytes);
    } else {
        json::write_text_or_bytes(out, bytes, Charset::UTF8MB4);
    }
}

/// A text that may be cut within its last character, without this one.
fn whole<'t>(text: &'t [u8], charset: &Charset) -> &'t [u8] {
    let shorter = |bytes| text.len().checked_sub(bytes).map(|length| &text[..length]);
    let is_exact = |text: &&[u8]| charset.decode(text, &mut Vec::new()) == Fidelity::Exact;
    (0..CHAR_BYTES_MAX).filter_map(shorter).find(is_exact).unwrap_or(text)
}

/// Whether it is a number of JSON: the arena may be damaged.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, mut rest) = text.split_at(digits(text));
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with(b"0")) {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"-").unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(params: &[Param<'_>]) -> Vec<u8> {
        let mut text = Vec::new();
        for param in params {
            let (head, count) = param.head();
            text.extend_from_slice(&head[..count]);
            text.extend_from_slice(param.parts().1);
        }
        text
    }

    fn shown(sql: &str, params: &[Param<'_>]) -> String {
        json_of(sql, params, false)
    }

    fn json_of(sql: &str, params: &[Param<'_>], is_cut: bool) -> String {
        let setting = Setting::of(b"utf8mb4", b"");
        let params = encoded(params);
        let json = json((&params, is_cut), sql.as_bytes(), setting, Some(Charset::UTF8MB4));
        let text = String::from_utf8(json).expect("UTF-8");
        let parsed = serde_json::from_str::<serde_json::Value>(&text);
        assert!(parsed.is_ok_and(|value| value.is_array()), "{text}");
        text
    }

    #[test]
    fn values_become_json() {
        let params = [
            Param::Number(b"-1"),
            Param::Number(b"1.5e-7"),
            Param::Null,
            Param::Text("a\"\u{e4}\n".as_bytes()),
            Param::Bytes(b"\0\x01"),
            Param::Bytes(b"text"),
            Param::Plain(b"2026-01-02"),
            Param::Mark(b"default"),
        ];
        assert_eq!(
            shown("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", &params),
            "[-1,1.5e-7,null,\"a\\\"\u{e4}\\n\",{\"b64\":\"AAE=\"},\"text\",\"2026-01-02\",\
             {\"indicator\":\"default\"}]"
        );
        assert_eq!(shown("DO 1", &[]), "[]");
        // Cut within a character.
        assert_eq!(json_of("DO ?", &[Param::Text(b"a\xc3")], true), "[\"a\"]");
        // Of another character set than it says.
        assert_eq!(shown("DO ?", &[Param::Text(b"\xe4")]), "[{\"b64\":\"5A==\"}]");
        // A damaged arena.
        assert_eq!(shown("DO ?", &[Param::Number(b"1]")]), "[\"1]\"]");
    }

    #[test]
    fn secrets_are_not_shown() {
        let [name, secret] = [Param::Text(b"bob"), Param::Text(b"hunter2")];
        assert_eq!(
            shown("SELECT AES_ENCRYPT(?, ?), ?", &[secret, secret, name]),
            "[\"<secret>\",\"<secret>\",\"bob\"]"
        );
        assert_eq!(shown("SET @x = ?, @pwd = ?", &[name, secret]), "[\"bob\",\"<secret>\"]");
        // Rows of a bulk execution, one after the other.
        let rows = [name, secret, name, secret];
        assert_eq!(
            shown("SELECT ?, ENCODE(?, 'key')", &rows),
            "[\"bob\",\"<secret>\",\"bob\",\"<secret>\"]"
        );
        // A secret within the value, whatever the statement.
        for value in ["https://u:p@host", "ALTER USER u IDENTIFIED BY 'hunter2'"] {
            assert_eq!(
                shown("EXECUTE IMMEDIATE ?", &[Param::Text(value.as_bytes())]),
                "[\"<secret>\"]",
                "{value}"
            );
        }
        // Numbers, too: a PIN.
        assert_eq!(shown("SET @pwd = ?", &[Param::Number(b"1234")]), "[\"<secret>\"]");
    }

    #[test]
    fn numbers_of_json_are_recognised() {
        for number in ["0", "-1", "18446744073709551615", "0.5", "1e300", "1.5e-7"] {
            assert!(is_number(number.as_bytes()), "{number}");
        }
        for other in ["", "-", "01", "1.", ".5", "1e", "1e+", "nan", "1,2", "0x1", "1 "] {
            assert!(!is_number(other.as_bytes()), "{other}");
        }
    }
}
