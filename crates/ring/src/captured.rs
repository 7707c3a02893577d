//! Connection ids and strings in the records of a capture.

/// Bit of a connection id that a capture made: see [`captured_conn`].
const CONN_CAPTURED: u64 = 1 << 63;
/// Number of bits of a capture's own number.
const CAPTURE_BITS: u32 = 31;

/// The connection id in the records of a capture. Several servers, and one server after a restart,
/// give the same `id` to several connections, and of a connection that was joined in its middle it
/// is not known (0): `number` is the capture's own.
pub const fn captured_conn(id: u32, number: u32) -> u64 {
    let number = number as u64 & ((1 << CAPTURE_BITS) - 1);
    CONN_CAPTURED | (id as u64) << CAPTURE_BITS | number
}

/// Whether a capture made the record with this connection id. No server has ids of 64 bits.
#[inline]
pub const fn is_captured(conn: u64) -> bool {
    conn & CONN_CAPTURED != 0
}

/// The server's id of a connection. `None`: it is not known.
#[inline]
pub const fn server_conn(conn: u64) -> Option<u64> {
    let id = if !is_captured(conn) { conn } else { conn << 1 >> (CAPTURE_BITS + 1) };
    if id == 0 { None } else { Some(id) }
}

/// What [`STRING_PROXY_USER`](crate::codec::STRING_PROXY_USER) has in records of a capture: texts, each preceded by a NUL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Port of the client, in decimal digits.
    pub port: &'a [u8],
    /// Address and port of the server.
    pub server_addr: &'a [u8],
    /// `partial`, if the capture has not seen all of the session.
    pub session: &'a [u8],
    /// In `Connect` records: name of the client program.
    pub program: &'a [u8],
    /// In `Connect` records: name and version of the client's library.
    pub client_version: &'a [u8],
}

impl<'a> Captured<'a> {
    /// Of a record with this connection id. `None`: it is not one of a capture. The id says so:
    /// the string of a server may have any bytes, a client's among them.
    pub fn read(conn: u64, string: &'a [u8]) -> Option<Captured<'a>> {
        if !is_captured(conn) {
            return None;
        }
        let rest = string.strip_prefix(&[0]).unwrap_or_default();
        let mut texts = rest.split(|byte| *byte == 0);
        let mut next = || texts.next().unwrap_or_default();
        Some(Captured {
            port: next(),
            server_addr: next(),
            session: next(),
            program: next(),
            client_version: next(),
        })
    }

    /// The texts, in the order of the string.
    pub fn texts(&self) -> [&'a [u8]; 5] {
        [self.port, self.server_addr, self.session, self.program, self.client_version]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_keeps_the_servers_connection_id() {
        assert_eq!(server_conn(0), None);
        assert_eq!(server_conn(7), Some(7));
        for number in [0, 1, 0x7fff_ffff, u32::MAX] {
            assert_eq!(server_conn(captured_conn(0, number)), None);
            assert_eq!(server_conn(captured_conn(7, number)), Some(7));
            assert_eq!(server_conn(captured_conn(u32::MAX, number)), Some(u32::MAX.into()));
        }
        assert_ne!(captured_conn(7, 1), captured_conn(7, 2));
    }

    #[test]
    fn the_string_of_a_capture_is_no_users_name() {
        const STRING: &[u8] = b"\x005555\x00[::1]:3306\0partial\0mysql\0lib 3";
        for (conn, string) in [(7, &b""[..]), (7, b"'worker'@'%'"), (7, STRING), (0, STRING)] {
            assert_eq!(Captured::read(conn, string), None);
        }
        let conn = captured_conn(7, 1);
        let captured = Captured::read(conn, STRING).unwrap();
        let texts = [&b"5555"[..], b"[::1]:3306", b"partial", b"mysql", b"lib 3"];
        assert_eq!(captured.texts(), texts);
        for none in [&b""[..], b"\0", b"no mark"] {
            assert_eq!(Captured::read(conn, none), Some(Captured::default()));
        }
        assert!(is_captured(captured_conn(0, 0)));
    }
}
