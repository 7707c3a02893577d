//! The packets of a login: greeting of the server, answer of the client.
//!
//! Authentication data is skipped; nothing here keeps it.

use super::caps;
use super::read::Reader;
use tacho_ring::codec::STRING_BYTES_MAX;

/// The server's greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The server's version.
    pub version: Vec<u8>,
    /// The connection id.
    pub conn: u32,
    /// What the server can.
    pub caps: u64,
    /// The lower byte of the number of its own collation.
    pub collation: u8,
}

/// Longest version that is believed.
const VERSION_BYTES_MAX: usize = 256;

impl Greeting {
    /// `None`: it is no greeting of protocol 10.
    pub fn read(payload: &[u8]) -> Option<Greeting> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != 10 {
            return None;
        }
        let version = reader.nul_bytes()?;
        if version.len() > VERSION_BYTES_MAX || !version.iter().all(|b| (b' '..=b'~').contains(b)) {
            return None;
        }
        let conn = reader.u32()?;
        reader.take(9)?;
        let mut caps = u64::from(reader.u16()?);
        let collation = reader.u8();
        // Before 4.1 there is no more.
        if let Some(more) = reader.take(2).and_then(|_| reader.u16()) {
            caps |= u64::from(more) << 16;
            reader.take(7)?;
            let mariadb = reader.u32()?;
            if caps & caps::MYSQL == 0 {
                caps |= u64::from(mariadb) << 32;
            }
        }
        // Replication-safe: for old replicas, MariaDB 10 says that it is 5.5.5.
        let version = version.strip_prefix(b"5.5.5-").unwrap_or(version).to_vec();
        Some(Greeting { version, conn, caps, collation: collation.unwrap_or(0) })
    }
}

/// The client's answer to the greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It continues with TLS.
    Tls,
    /// It logs in.
    Login(Login),
    /// The protocol before 4.1.
    Old,
}

/// A login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// What the client can.
    pub caps: u64,
    /// Number of the collation of the client's texts.
    pub collation: u16,
    /// The user's name.
    pub user: Vec<u8>,
    /// The database.
    pub db: Vec<u8>,
    /// From its attributes.
    pub client: Client,
}

impl Login {
    /// Memory that it holds, bytes.
    pub fn held_bytes(&self) -> usize {
        self.user.len() + self.db.len() + self.client.held_bytes()
    }
}

/// A name that a record can have: longer ones are cut in the arena, so no session keeps them.
pub fn name(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(STRING_BYTES_MAX)].to_vec()
}

/// What a client says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// `program_name`.
    pub program: Vec<u8>,
    /// `_client_name` and `_client_version`.
    pub version: Vec<u8>,
    /// `_os_user`, if it is sent.
    pub os_user: Vec<u8>,
}

impl Client {
    /// Memory that it holds, bytes.
    pub fn held_bytes(&self) -> usize {
        self.program.len() + self.version.len() + self.os_user.len()
    }
}

impl Answer {
    /// To a server with these capabilities. `None`: it is none.
    ///
    /// A server that can TLS begins it for the flag alone: whatever follows in the packet, it reads
    /// no login from it. So does this, or a client could show another login than it has.
    pub fn read(payload: &[u8], server_caps: u64) -> Option<Answer> {
        let mut reader = Reader::new(payload);
        let low = reader.u16()?;
        if u64::from(low) & server_caps & caps::SSL != 0 {
            return Some(Answer::Tls);
        }
        if u64::from(low) & caps::PROTOCOL_41 == 0 {
            return Some(Answer::Old);
        }
        let mut client_caps = u64::from(low) | u64::from(reader.u16()?) << 16;
        reader.u32()?;
        let collation = u16::from(reader.u8()?);
        reader.take(19)?;
        let mariadb = reader.u32()?;
        if client_caps & caps::MYSQL == 0 {
            client_caps |= u64::from(mariadb) << 32;
        }
        let user = name(reader.nul_bytes()?);
        skip_authentication(&mut reader, client_caps)?;
        let has_db = client_caps & caps::CONNECT_WITH_DB != 0;
        let db = if has_db { reader.nul_or_rest() } else { &[] };
        if client_caps & caps::PLUGIN_AUTH != 0 {
            reader.nul_or_rest();
        }
        let client = attributes(&mut reader, client_caps);
        let db = name(db);
        Some(Answer::Login(Login { caps: client_caps, collation, user, db, client }))
    }
}

fn skip_authentication(reader: &mut Reader<'_>, client_caps: u64) -> Option<()> {
    if client_caps & caps::PLUGIN_AUTH_LENENC != 0 {
        reader.lenenc_bytes()?;
    } else if client_caps & caps::SECURE_CONNECTION != 0 {
        let bytes = reader.u8()?;
        reader.take(bytes.into())?;
    } else {
        reader.nul_or_rest();
    }
    Some(())
}

/// The attributes; a login that has none, or damaged ones, is a login all the same.
fn attributes(reader: &mut Reader<'_>, client_caps: u64) -> Client {
    let mut client = Client::default();
    let all = (client_caps & caps::CONNECT_ATTRS != 0).then(|| reader.lenenc_bytes()).flatten();
    let mut all = Reader::new(all.unwrap_or_default());
    let (mut library, mut version) = (&[][..], &[][..]);
    while let (Some(key), Some(value)) = (all.lenenc_bytes(), all.lenenc_bytes()) {
        match key {
            b"program_name" => client.program = name(value),
            b"_os_user" => client.os_user = name(value),
            b"_client_name" => library = value,
            b"_client_version" => version = value,
            _ => {}
        }
    }
    let parts = [library, version];
    let parts = parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    client.version = name(&parts.join(&b' '));
    client
}

/// `COM_CHANGE_USER`, after its first byte.
pub fn change_user(payload: &[u8], client_caps: u64) -> Option<Login> {
    let mut reader = Reader::new(payload);
    let user = name(reader.nul_bytes()?);
    if client_caps & caps::SECURE_CONNECTION != 0 {
        let bytes = reader.u8()?;
        reader.take(bytes.into())?;
    } else {
        reader.nul_bytes()?;
    }
    let db = name(reader.nul_or_rest());
    // 0: an old client that sends no collation.
    let collation = reader.u16().unwrap_or(0);
    if client_caps & caps::PLUGIN_AUTH != 0 {
        reader.nul_or_rest();
    }
    let client = attributes(&mut reader, client_caps);
    Some(Login { caps: client_caps, collation, user, db, client })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documents() {
        // Protocol::HandshakeV10 and HandshakeResponse41 of MySQL 5.6's protocol documentation.
        let greeting =
            b"\x0a5.5.2-m2\0\x0b\0\0\0\x64\x76\x48\x40\x49\x2d\x43\x4a\0\xff\xf7\x08\x02\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\x2a\x34\x64\x7c\x63\x5a\x77\x6b\x34\x5e\x5d\x3a\0";
        let greeting = Greeting::read(greeting).expect("a greeting");
        assert_eq!((&greeting.version[..], greeting.conn), (&b"5.5.2-m2"[..], 11));
        assert_eq!(greeting.caps, 0xf7ff);
        let answer = b"\x85\xa6\x0f\0\0\0\0\x01\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
            pam\0\x14\xab\x09\xee\xf6\xbc\xb1\x32\x3e\x61\x14\x38\x65\xc0\x99\x1d\x95\x7d\x75\xd4\
            \x47test\0mysql_native_password\0";
        let Some(Answer::Login(login)) = Answer::read(answer, 0xf7ff) else { panic!("no login") };
        assert_eq!(login.user, b"pam");
        assert_eq!(login.collation, 33);
        assert_eq!(login.db, b"", "the flag for it is not set");
    }

    #[test]
    fn names_are_cut_where_records_cut_them() {
        let long = [b'x'; 5000];
        let value = [&b"\xfc\x88\x13"[..], &long].concat();
        let keys = [&b"\x0cprogram_name"[..], b"\x08_os_user", b"\x0f_client_version"];
        let attributes = keys.map(|key| [key, &value].concat()).concat();
        let length = (attributes.len() as u16).to_le_bytes();
        let payload = [&long[..], b"\0\0", &long, b"\0\x21\0\xfc", &length, &attributes].concat();
        let login = change_user(&payload, caps::SECURE_CONNECTION | caps::CONNECT_ATTRS);
        let login = login.expect("a login");
        let Client { program, version, os_user } = &login.client;
        for part in [&login.user, &login.db, program, version, os_user] {
            assert_eq!(part.len(), STRING_BYTES_MAX);
        }
        assert_eq!(login.held_bytes(), 5 * STRING_BYTES_MAX);
    }

    #[test]
    fn tls_begins_with_the_flag_alone() {
        // A whole login behind the flag; a packet without anything behind the capabilities.
        let caps = (caps::PROTOCOL_41 | caps::SSL) as u32;
        let mut answer = caps.to_le_bytes().to_vec();
        answer.extend([0; 28]);
        answer.extend(b"me\0password\0");
        for end in [4, 32, answer.len()] {
            assert_eq!(Answer::read(&answer[..end], caps::SSL), Some(Answer::Tls), "{end}");
        }
        // A server without TLS reads the login.
        assert!(matches!(Answer::read(&answer, 0), Some(Answer::Login(_))));
        assert_eq!(Answer::read(&answer[..32], 0), None);
    }

    #[test]
    fn truncated_packets_are_not_logins() {
        let attributes = b"\x0cprogram_name\x01p\x0c_client_name\x03lib\x0f_client_version\x013";
        let caps = (caps::PROTOCOL_41 | caps::PLUGIN_AUTH_LENENC | caps::CONNECT_WITH_DB) as u32;
        let caps = caps | (caps::CONNECT_ATTRS | caps::MYSQL) as u32;
        let mut answer = caps.to_le_bytes().to_vec();
        answer.extend([0, 0, 0, 1, 45]);
        answer.extend([0; 23]);
        answer.extend(b"me\0\x02xxdb\0");
        answer.push(attributes.len() as u8);
        answer.extend(attributes);
        let Some(Answer::Login(login)) = Answer::read(&answer, !0) else { panic!("no login") };
        assert_eq!((&login.user[..], &login.db[..]), (&b"me"[..], &b"db"[..]));
        assert_eq!(login.client.program, b"p");
        assert_eq!(login.client.version, b"lib 3");
        for end in 0..34 {
            let cut = Answer::read(&answer[..end], !0);
            assert!(!matches!(cut, Some(Answer::Login(_))), "{end}: {cut:?}");
        }
    }
}
