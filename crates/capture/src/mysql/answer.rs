//! Single packets of the server: OK, ERR, EOF.

use super::caps;
use super::read::Reader;

/// An OK packet, or one that ends a result set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ok<'p> {
    /// Rows changed, inserted or deleted.
    pub affected: u64,
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
        reader.lenenc()?;
        let status = reader.u16()?;
        reader.u16()?;
        let mut ok = Ok { affected, status, ..Ok::default() };
        let tracks = session_caps.is_none_or(|session| session & caps::SESSION_TRACK != 0);
        if tracks && status & caps::STATUS_SESSION_CHANGED != 0 {
            // Without the capability a text to the end of the packet is here; then this finds
            // nothing.
            if let Some((_info, changes)) = reader.lenenc_bytes().zip(reader.lenenc_bytes()) {
                ok.take_changes(Reader::new(changes));
            }
        }
        Some(ok)
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

/// The status of an EOF packet; `payload` after its first byte.
pub fn eof_status(payload: &[u8]) -> Option<u16> {
    let mut reader = Reader::new(payload);
    reader.u16()?;
    reader.u16()
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
    fn an_error_with_and_without_a_state() {
        let error = Failure::read(b"\x48\x04#HY000No tables used").expect("an error");
        assert_eq!((error.errno, error.sqlstate), (1096, Some(*b"HY000")));
        assert_eq!(error.message, b"No tables used");
        let error = Failure::read(b"\x10\x04Too many connections").expect("an error");
        assert_eq!((error.errno, error.sqlstate), (1040, None));
        assert_eq!(error.message, b"Too many connections");
    }
}
