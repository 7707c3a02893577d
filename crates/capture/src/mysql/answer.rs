//! Single packets of the server: OK, ERR, EOF.

use super::caps;
use super::read::Reader;

/// An OK packet, or one that ends a result set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ok<'p> {
    /// Rows changed, inserted or deleted.
    pub affected: u64,
    /// The first value of an `AUTO_INCREMENT` column, or of `LAST_INSERT_ID(expr)`; 0: none.
    pub last_insert_id: u64,
    /// Conditions that `SHOW WARNINGS` would show.
    pub warnings: u16,
    /// What the statement says about itself, such as the rows that it matched.
    pub info: &'p [u8],
    /// Bits `STATUS_*`.
    pub status: u16,
    /// The new default database, if it has changed.
    pub db: Option<&'p [u8]>,
    /// The new character set of statements, if it has changed.
    pub charset: Option<&'p [u8]>,
}

const TRACK_VARIABLES: u8 = 0;
const TRACK_SCHEMA: u8 = 1;

impl<'p> Ok<'p> {
    /// Reads the payload after its first byte.
    pub fn read(payload: &'p [u8], session_caps: Option<u64>) -> Option<Ok<'p>> {
        let mut reader = Reader::new(payload);
        let affected = reader.lenenc()?;
        let last_insert_id = reader.lenenc()?;
        let status = reader.u16()?;
        let warnings = reader.u16()?;
        let mut ok = Ok { affected, last_insert_id, warnings, status, ..Ok::default() };
        if !reader.is_empty() {
            ok.take_info(reader, session_caps);
        }
        Some(ok)
    }

    /// Takes the text behind the fixed part, and the changes of the session behind that.
    fn take_info(&mut self, mut reader: Reader<'p>, session_caps: Option<u64>) {
        let rest = reader.rest();
        let tracks = session_caps.is_none_or(|session| session & caps::SESSION_TRACK != 0);
        let is_changed = tracks && self.status & caps::STATUS_SESSION_CHANGED != 0;
        let info = reader.lenenc_bytes();
        match info {
            Some(info) if is_changed => {
                if let Some(changes) = reader.lenenc_bytes() {
                    self.info = info;
                    self.take_changes(Reader::new(changes));
                }
            }
            // MySQL and MariaDB send its length also without session tracking.
            Some(info) if reader.is_empty() => self.info = info,
            // The documented form without session tracking: a text to the end of the packet.
            _ if session_caps.is_some() && !tracks => self.info = rest,
            _ => {}
        }
    }

    fn take_changes(&mut self, mut changes: Reader<'p>) {
        while let (Some(kind), Some(change)) = (changes.u8(), changes.lenenc_bytes()) {
            let mut change = Reader::new(change);
            match kind {
                TRACK_SCHEMA => self.db = change.lenenc_bytes(),
                TRACK_VARIABLES => {
                    while let (Some(name), Some(value)) =
                        (change.lenenc_bytes(), change.lenenc_bytes())
                    {
                        if name == b"character_set_client" {
                            self.charset = Some(value);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// An EOF packet as an OK packet, which has more; `payload` after its first byte.
pub fn eof(payload: &[u8]) -> Option<Ok<'_>> {
    let mut reader = Reader::new(payload);
    let warnings = reader.u16()?;
    let status = reader.u16()?;
    Some(Ok { warnings, status, ..Ok::default() })
}

/// Length of an EOF packet.
pub const EOF_BYTES: u64 = 5;

/// An ERR packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The server's error number.
    pub errno: u32,
    /// SQLSTATE; before the login there is none.
    pub sqlstate: Option<[u8; 5]>,
    /// The message.
    pub message: Vec<u8>,
}

impl Failure {
    /// Reads the payload after its first byte.
    pub fn read(payload: &[u8]) -> Option<Failure> {
        let mut reader = Reader::new(payload);
        let errno = reader.u16()?.into();
        let mut sqlstate = None;
        if let [b'#', state @ ..] = reader.rest()
            && let Some((state, message)) = state.split_first_chunk::<5>()
        {
            sqlstate = Some(*state);
            reader = Reader::new(message);
        }
        Some(Failure { errno, sqlstate, message: reader.rest().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ok_packet_reports_changes_of_the_session() {
        // Protocol::OK_Packet: `USE test` with session tracking.
        let payload = b"\0\0\x02\x40\0\0\0\x07\x01\x05\x04test";
        let ok = Ok::read(payload, Some(caps::SESSION_TRACK)).expect("an OK packet");
        assert_eq!((ok.db, ok.status), (Some(&b"test"[..]), 0x4002));
        let ok = Ok::read(payload, Some(0)).expect("an OK packet");
        assert_eq!(ok.db, None);
        let payload = b"\x01\x02\x02\x40\0\0\0\x1d\0\x1b\x14character_set_client\x05greek";
        let ok = Ok::read(payload, None).expect("an OK packet");
        assert_eq!((ok.affected, ok.charset), (1, Some(&b"greek"[..])));
        for end in 0..payload.len() {
            let _ = Ok::read(&payload[..end], None);
        }
    }

    #[test]
    fn an_ok_packet_has_the_facts_about_its_statement() {
        let of = |payload: &'static [u8], session_caps| {
            let ok = Ok::read(payload, session_caps).expect("an OK packet");
            (ok.affected, ok.last_insert_id, ok.warnings, ok.info)
        };
        // Both servers send the length of the text with and without session tracking.
        let counted = b"\x01\xfc\x39\x30\x02\0\x05\x01\x07Rows: 1";
        for session_caps in [None, Some(0), Some(caps::SESSION_TRACK)] {
            assert_eq!(of(counted, session_caps), (1, 12345, 261, &b"Rows: 1"[..]));
            assert_eq!(of(b"\0\0\x02\0\0\0", session_caps), (0, 0, 0, &b""[..]));
            assert_eq!(of(b"\0\0\x02\0\0\0\0", session_caps).3, b"");
        }
        // The documentation has no length there.
        let to_the_end = b"\0\0\x02\0\0\0Rows: 1";
        assert_eq!(of(to_the_end, Some(0)).3, b"Rows: 1");
        assert_eq!(of(to_the_end, Some(caps::SESSION_TRACK)).3, b"");
        assert_eq!(of(to_the_end, None).3, b"");
        // Before changes of the session.
        let tracked = b"\0\0\x02\x40\0\0\x02ab\x07\x01\x05\x04test";
        assert_eq!(of(tracked, Some(caps::SESSION_TRACK)).3, b"ab");
        assert_eq!(Ok::read(tracked, None).expect("an OK packet").db, Some(&b"test"[..]));
    }

    #[test]
    fn an_eof_packet_has_warnings_and_a_status() {
        let ok = eof(b"\x03\x01\x22\0").expect("an EOF packet");
        assert_eq!((ok.warnings, ok.status), (0x103, 0x22));
        assert_eq!(eof(b"\0\0\x02"), None);
    }

    #[test]
    fn an_error_with_and_without_a_state() {
        let error = Failure::read(b"\x48\x04#HY000No tables used").expect("an error");
        assert_eq!((error.errno, error.sqlstate), (1096, Some(*b"HY000")));
        assert_eq!(error.message, b"No tables used");
        let error = Failure::read(b"\x10\x04Too many connections").expect("an error");
        assert_eq!((error.errno, error.sqlstate), (1040, None));
        assert_eq!(error.message, b"Too many connections");
    }
}
