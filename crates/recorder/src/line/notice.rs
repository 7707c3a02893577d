//! What the server reports besides statements: records of the kind `Notice`.

use std::borrow::Cow;

use tacho_record::{Attribute, Outcome, Record};
use tacho_ring::codec::{
    NOTICE_AUTHID_CREATE, NOTICE_AUTHID_DROP, NOTICE_AUTHID_RENAME, NOTICE_CREDENTIAL_CHANGE,
    NOTICE_EXECUTE, NOTICE_FLUSH, NOTICE_INTERNAL, NOTICE_SET, NOTICE_SHUTDOWN, NOTICE_STARTUP,
    NOTICE_USER, STRING_DB, STRING_HOST, STRING_IP, STRING_OS_USER, STRING_PRIV_USER,
    STRING_PROXY_USER, STRING_USER, View,
};
use tacho_sql::digest::REDACTED;
use tacho_sql::redact;

/// Class and action of each `NOTICE_*`, in the server's words
/// (`include/mysql/components/services/defs/event_tracking_*_defs.h`, MySQL 9.7.4).
const WORDS: [(i32, &str, &str); 11] = [
    (NOTICE_FLUSH, "authentication", "flush"),
    (NOTICE_AUTHID_CREATE, "authentication", "authid_create"),
    (NOTICE_CREDENTIAL_CHANGE, "authentication", "credential_change"),
    (NOTICE_AUTHID_RENAME, "authentication", "authid_rename"),
    (NOTICE_AUTHID_DROP, "authentication", "authid_drop"),
    (NOTICE_SET, "global_variable", "set"),
    (NOTICE_USER, "message", "user"),
    (NOTICE_INTERNAL, "message", "internal"),
    (NOTICE_EXECUTE, "stored_program", "execute"),
    (NOTICE_STARTUP, "lifecycle", "startup"),
    (NOTICE_SHUTDOWN, "lifecycle", "shutdown"),
];

/// The server cuts the value of a SET after 256 bytes, at the end of a character, without a mark
/// (`MAX_ALIAS_NAME`, sql/sql_const.h, MySQL 9.7.4): a value up to this length is whole.
const ITEM_NAME_BYTES_WHOLE: usize = 252;

/// An attribute of a message, as it may be written.
struct Shown<'v> {
    key: Cow<'v, [u8]>,
    value: Cow<'v, [u8]>,
}

/// The fields that only these lines have.
#[derive(Default)]
pub(super) struct Notice<'v> {
    class: &'static str,
    action: &'static str,
    object: Cow<'v, [u8]>,
    producer: Cow<'v, [u8]>,
    detail: Cow<'v, [u8]>,
    detail_bytes: Option<u64>,
    attributes: Vec<Shown<'v>>,
    outcome: Option<Outcome>,
}

impl<'v> Notice<'v> {
    /// Reads a record; `text` is the part of its text that can be read.
    pub(super) fn read(view: &View<'v>, text: &'v [u8], redact_literals: bool) -> Notice<'v> {
        let number = view.body.sql_command;
        let words = WORDS.iter().find(|(one, ..)| *one == number);
        let (class, action) = words.map_or(("", ""), |(_, class, action)| (*class, *action));
        let (first, second) = (view.string(STRING_PROXY_USER), view.string(STRING_OS_USER));
        let mut notice = Notice { class, action, ..Notice::default() };
        let is_missing = text.len() < view.body.text_bytes as usize;
        notice.detail_bytes = match view.figures[1] {
            0 => is_missing.then_some(view.body.text_bytes.into()),
            original => Some(original),
        };
        match number {
            NOTICE_FLUSH => {}
            NOTICE_SET => {
                notice.object = first.into();
                notice.detail = set_value(first, text, redact_literals);
            }
            NOTICE_USER | NOTICE_INTERNAL => {
                // A client wrote all of it.
                notice.object = hide(b"", first, redact_literals);
                notice.producer = hide(b"", second, redact_literals);
                notice.unpack(view, text, redact_literals);
            }
            NOTICE_EXECUTE => notice.object = join(b'`', b'.', first, second),
            NOTICE_STARTUP => notice.detail = arguments(text, redact_literals).into(),
            NOTICE_SHUTDOWN => {
                notice.object = first.into();
                notice.detail = text.into();
            }
            _ => {
                notice.object = join(b'\'', b'@', first, second);
                let failed = view.body.errno != 0;
                notice.outcome = Some(if failed { Outcome::Error } else { Outcome::Ok });
            }
        }
        notice
    }

    /// Unpacks a message and the attributes that follow it.
    fn unpack(&mut self, view: &View<'v>, text: &'v [u8], redact_literals: bool) {
        let message_bytes = usize::try_from(view.figures[0]).unwrap_or(usize::MAX);
        let (message, mut rest) = text.split_at_checked(message_bytes).unwrap_or((text, &[]));
        self.detail = hide(b"", message, redact_literals);
        while let Some((key, value, behind)) = split_attribute(rest) {
            let value = hide(key, value, redact_literals);
            self.attributes.push(Shown { key: hide(b"", key, redact_literals), value });
            rest = behind;
        }
    }

    /// In the form that a record needs.
    pub(super) fn attributes(&self) -> Vec<Attribute<'_>> {
        self.attributes.iter().map(|Shown { key, value }| Attribute { key, value }).collect()
    }

    /// Fills in everything except the attributes.
    pub(super) fn fill<'s>(&'s self, view: &View<'s>, record: &mut Record<'s>) {
        record.outcome = self.outcome;
        record.user = view.string(STRING_USER);
        record.priv_user = view.string(STRING_PRIV_USER);
        record.host = view.string(STRING_HOST);
        record.ip = view.string(STRING_IP);
        record.db = view.string(STRING_DB);
        record.class = self.class.as_bytes();
        record.action = self.action.as_bytes();
        record.object = &self.object;
        record.producer = &self.producer;
        record.detail = &self.detail;
        record.detail_bytes = self.detail_bytes;
    }
}

/// Key, value, and the remaining bytes.
fn split_attribute(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key_bytes, rest) = bytes.split_first_chunk::<4>()?;
    let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_bytes) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_bytes) as usize)?;
    Some((key, value, rest))
}

/// The part of a value that may be written.
fn hide<'v>(name: &[u8], value: &'v [u8], redact_literals: bool) -> Cow<'v, [u8]> {
    if redact_literals && !value.is_empty() {
        return Cow::Borrowed(REDACTED);
    }
    redact::value(name, value)
}

/// The part of the value of a SET that may be written.
fn set_value<'v>(name: &[u8], value: &'v [u8], redact_literals: bool) -> Cow<'v, [u8]> {
    // The word that marks the preceding part as a secret may be cut off.
    let may_be_cut = value.len() > ITEM_NAME_BYTES_WHOLE;
    hide(name, value, redact_literals || may_be_cut)
}

/// Two names in quotes, as in SQL: a quote in a name is doubled.
fn join<'v>(quote: u8, between: u8, first: &[u8], second: &[u8]) -> Cow<'v, [u8]> {
    let mut out = Vec::new();
    // An account without a name stands for all users of that host.
    for (index, name) in [first, second].into_iter().enumerate() {
        if index > 0 {
            out.push(between);
        }
        out.push(quote);
        for byte in name {
            out.push(*byte);
            if *byte == quote {
                out.push(quote);
            }
        }
        out.push(quote);
    }
    out.into()
}

/// The server's arguments, separated by blanks. A value follows its option after `=`, or is the
/// next argument.
fn arguments(text: &[u8], redact_literals: bool) -> Vec<u8> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    // The option whose value may be the next argument.
    let mut open: Option<&[u8]> = None;
    let shown = text.split(|byte| *byte == 0).enumerate().map(|(index, argument)| {
        let before = open.take();
        let option = argument.trim_ascii_start();
        // A secret may look like an option.
        let is_option = option.starts_with(b"-") && !before.is_some_and(redact::is_secret_name);
        if index > 0 && !is_option {
            return hide(before.unwrap_or_default(), argument, redact_literals).into_owned();
        }
        let name = option.strip_prefix(b"--").unwrap_or(option);
        let Some(at) = argument.iter().position(|byte| *byte == b'=') else {
            open = (index > 0).then_some(name);
            return argument.to_vec();
        };
        let (option, value) = argument.split_at(at + 1);
        let name = name.split(|byte| *byte == b'=').next().unwrap_or_default();
        [option, &hide(name, value, redact_literals)].concat()
    });
    shown.collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_in_sql() {
        assert_eq!(&*join(b'`', b'.', b"shop", b"a`b"), b"`shop`.`a``b`");
        assert_eq!(&*join(b'\'', b'@', b"", b"%"), b"''@'%'");
    }

    #[test]
    fn arguments_are_shown_without_secrets() {
        let text = b"mysqld\0--datadir=/x\0--my-password=p\0--master-sst_auth=a=b\0--skip-x\0";
        assert_eq!(
            String::from_utf8(arguments(text, false)).unwrap(),
            "mysqld --datadir=/x --my-password=<secret> --master-sst_auth=<secret> --skip-x"
        );
        assert_eq!(
            String::from_utf8(arguments(b"mysqld\0--datadir=/x\0", true)).unwrap(),
            "mysqld --datadir=<redacted>"
        );
        // In two arguments, of which the second may look like an option.
        let program = "/long".repeat(20);
        let text = b"mysqld\0--report-password\0p\0--skip-x\0--init-connect\0SET PASSWORD = 'q'\0\
            --my-password\0--r\0--port\x007\0";
        assert_eq!(
            String::from_utf8(arguments(text, false)).unwrap(),
            "mysqld --report-password <secret> --skip-x --init-connect SET PASSWORD = <secret> \
             --my-password <secret> --port 7"
        );
        let text = format!("{program}\0--port=7\0");
        assert!(arguments(text.as_bytes(), false).ends_with(b"/long --port=7"));
        assert_eq!(
            String::from_utf8(arguments(b"mysqld\0--port\x007\0x\0", true)).unwrap(),
            "mysqld --port <redacted> <redacted>"
        );
        assert_eq!(arguments(b"", false), b"");
    }

    #[test]
    fn a_value_that_may_be_cut_is_not_shown() {
        let whole = format!("'{}'", "x".repeat(ITEM_NAME_BYTES_WHOLE - 2));
        let cut = format!("'{}'", "x".repeat(ITEM_NAME_BYTES_WHOLE - 1));
        for (value, shown) in [(&whole, whole.as_str()), (&cut, "<redacted>")] {
            let result = set_value(b"init_connect", value.as_bytes(), false);
            assert_eq!(String::from_utf8_lossy(&result), shown);
        }
    }

    #[test]
    fn attributes_are_read_as_far_as_they_are_whole() {
        let bytes = b"\x01\0\0\0\x02\0\0\0kvv\x00\0\0\0\x09\0\0\0short";
        let (key, value, rest) = split_attribute(bytes).unwrap();
        assert_eq!((key, value), (&b"k"[..], &b"vv"[..]));
        assert_eq!(split_attribute(rest), None);
        assert_eq!(split_attribute(b""), None);
    }

    #[test]
    fn a_value_is_hidden_by_its_name_or_all_of_them() {
        assert_eq!(&*hide(b"max_connections", b"5", false), b"5");
        assert_eq!(&*hide(b"x_password", b"5", false), b"<secret>");
        assert_eq!(
            &*hide(b"init_connect", b"SET PASSWORD = 'x'", false),
            b"SET PASSWORD = <secret>"
        );
        assert_eq!(&*hide(b"max_connections", b"5", true), b"<redacted>");
        assert_eq!(&*hide(b"x_password", b"", true), b"");
    }
}
