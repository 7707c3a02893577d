//! Statements in every character set that a client can use.

use crate::client::{Conn, Queryable as _};
use crate::raw::{Login, Raw, com};

/// Not possible as the character set of a client: the server's parser wants ASCII.
pub const REFUSED: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];

/// Bytes that are hard for one character set or another.
#[must_use]
pub fn payloads() -> Vec<Vec<u8>> {
    let mut payloads: Vec<Vec<u8>> = vec![
        (0..0x20).collect(),
        (0x20..0x80).filter(|byte| !b"';".contains(byte)).collect(),
        (0x80..=0xff).collect(),
        "quotes \\' '' \" ` and a newline\n\r\t".into(),
        "Grüße, 中文, 日本語, \u{1F600}, \u{FFFD}, \u{2028}".into(),
        // Ends in the middle of a character, surrogates, overlong forms.
        b"\xf0\x9f\x98".to_vec(),
        b"\xed\xa0\x80\xc0\xaf\xf8\x88\x80\x80\x80".to_vec(),
        b"\xe3\x81".to_vec(),
    ];
    // Every lead byte before trail bytes of all kinds, one of them a backslash.
    for trail in [0x30, 0x40, 0x5c, 0x7e, 0x80, 0xa1, 0xfe] {
        payloads.push((0x80..=0xff).flat_map(|lead| [lead, trail]).collect());
    }
    payloads
}

/// A statement with these bytes in a literal. Whether it parses does not matter.
#[must_use]
pub fn statement(id: usize, payload: &[u8]) -> Vec<u8> {
    [format!("SELECT /* id:{id}. */ _binary '").as_bytes(), payload, b"' AS x"].concat()
}

/// The character sets of a server, and the number of a collation of each that fits into a login.
///
/// # Errors
/// The server does not answer.
pub fn sets(conn: &mut Conn) -> mysql::Result<Vec<(String, u8)>> {
    conn.query(
        "SELECT character_set_name, MIN(id) FROM information_schema.collations \
         WHERE id < 256 AND character_set_name IS NOT NULL GROUP BY 1",
    )
}

/// Sends all payloads over TCP in each character set, which the login chooses in one session, and
/// `SET NAMES` in another. Returns how many sessions these were.
///
/// # Panics
/// A session fails.
pub fn send_all(conn: &mut Conn, port: u16, user: &str) -> usize {
    let sets = sets(conn).expect("the character sets");
    assert!(sets.len() > 35, "{sets:?}");
    let open = |login: &Login| Raw::login_tcp(port, login).expect("a connection");
    let mut sessions = 0;
    for (name, collation) in sets.iter().filter(|(name, _)| !REFUSED.contains(&&**name)) {
        let by_login = open(&Login { collation: *collation, ..Login::new(user) });
        let by_name = open(&Login::new(user));
        for (is_by_name, session) in [(false, by_login), (true, by_name)] {
            let mut raw = session.unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
            if is_by_name {
                raw.must(&[&format!("SET NAMES {name}")]);
            }
            for (id, payload) in payloads().iter().enumerate() {
                raw.query(statement(id, payload)).expect("an answer");
            }
            raw.command(com::QUIT, b"").expect("quitting");
            sessions += 1;
        }
    }
    sessions
}
