//! A client of the bare protocol, for packets that no library sends: any command number, any
//! character set, parameters of any type, half a conversation.
//!
//! It composes packets byte by byte and parses only as much of the answers as needed to find their
//! end.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketType};

/// Numbers of the commands, as in the server's `mysql_com.h`.
#[allow(missing_docs)]
pub mod com {
    pub const SLEEP: u8 = 0;
    pub const QUIT: u8 = 1;
    pub const INIT_DB: u8 = 2;
    pub const QUERY: u8 = 3;
    pub const FIELD_LIST: u8 = 4;
    pub const CREATE_DB: u8 = 5;
    pub const REFRESH: u8 = 7;
    pub const SHUTDOWN: u8 = 8;
    pub const STATISTICS: u8 = 9;
    pub const PROCESS_INFO: u8 = 10;
    pub const PROCESS_KILL: u8 = 12;
    pub const DEBUG: u8 = 13;
    pub const PING: u8 = 14;
    pub const CHANGE_USER: u8 = 17;
    pub const BINLOG_DUMP: u8 = 18;
    pub const REGISTER_SLAVE: u8 = 21;
    pub const STMT_PREPARE: u8 = 22;
    pub const STMT_EXECUTE: u8 = 23;
    pub const STMT_SEND_LONG_DATA: u8 = 24;
    pub const STMT_CLOSE: u8 = 25;
    pub const STMT_RESET: u8 = 26;
    pub const SET_OPTION: u8 = 27;
    pub const STMT_FETCH: u8 = 28;
    pub const RESET_CONNECTION: u8 = 31;
    pub const STMT_BULK_EXECUTE: u8 = 250;
}

/// Longest wait for bytes of the server before that is an error.
const PATIENCE: Duration = Duration::from_secs(90);

/// `utf8mb4_general_ci`.
pub const UTF8MB4: u8 = 45;

const CLIENT_CONNECT_WITH_DB: u32 = 8;
/// LONG_PASSWORD is left out: to MariaDB its absence says that the client is one of its own,
/// with the extended capabilities. LONG_FLAG, LOCAL_FILES, PROTOCOL_41, TRANSACTIONS,
/// SECURE_CONNECTION, MULTI_STATEMENTS, MULTI_RESULTS, PS_MULTI_RESULTS, PLUGIN_AUTH.
const CAPABILITIES: u32 =
    4 | 0x80 | 0x200 | 0x2000 | 0x8000 | 0x1_0000 | 0x2_0000 | 0x4_0000 | 0x8_0000;
/// MARIADB_CLIENT_STMT_BULK_OPERATIONS.
const EXTENDED_CAPABILITIES: u32 = 4;
const SERVER_MORE_RESULTS_EXISTS: u16 = 8;
const SERVER_STATUS_CURSOR_EXISTS: u16 = 64;

/// How a session is opened.
#[derive(Clone, Debug)]
pub struct Login<'l> {
    /// User name, bytes as they go over the wire.
    pub user: &'l [u8],
    /// Default database.
    pub db: Option<&'l [u8]>,
    /// Number of a collation: the client's character set.
    pub collation: u8,
    /// Sent instead of the scrambled password.
    pub response: &'l [u8],
    /// Capabilities of this client in addition to the common ones.
    pub capabilities: u32,
}

impl Login<'_> {
    /// As `user`, without a password or a database, in utf8mb4.
    pub fn new(user: &str) -> Login<'_> {
        Login {
            user: user.as_bytes(),
            db: None,
            collation: UTF8MB4,
            response: b"",
            capabilities: 0,
        }
    }
}

/// The end of one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An OK packet.
    Ok,
    /// A result set.
    Rows {
        /// Rows in it.
        rows: u64,
        /// Error in the middle of it.
        error: Option<u16>,
    },
    /// An error packet: its number.
    Error(u16),
}

impl Answer {
    /// Its error number, 0 if it is none.
    pub fn errno(&self) -> u16 {
        match self {
            Answer::Ok | Answer::Rows { error: None, .. } => 0,
            Answer::Error(errno) | Answer::Rows { error: Some(errno), .. } => *errno,
        }
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A session.
pub struct Raw {
    stream: Box<dyn Stream>,
    sequence: u8,
    /// Connection id, as in `SHOW PROCESSLIST`.
    pub conn: u64,
    /// Columns of the last result set.
    columns: u64,
    status: u16,
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({})", self.conn)
    }
}

/// The result of a login: a session, or the number of the error.
pub type LoginResult = io::Result<Result<Raw, (u64, u16)>>;

impl Raw {
    /// Over the socket, without a password.
    ///
    /// # Errors
    /// The connection broke, or the server refused the login.
    pub fn connect(socket: &Path, user: &str) -> io::Result<Raw> {
        match Raw::login(socket, &Login::new(user))? {
            Ok(raw) => Ok(raw),
            Err((_, errno)) => Err(io::Error::other(format!("login of {user}: error {errno}"))),
        }
    }

    /// Over the socket. A refusal is a result: connection id (0 if the server refused before
    /// sending one) and error number.
    ///
    /// # Errors
    /// The connection broke.
    pub fn login(socket: &Path, login: &Login) -> LoginResult {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Raw::open(Box::new(stream), login)
    }

    /// Over TCP on the loopback interface.
    ///
    /// # Errors
    /// The connection broke.
    pub fn login_tcp(port: u16, login: &Login) -> LoginResult {
        Raw::login_tcp_from(Ipv4Addr::LOCALHOST, port, login)
    }

    /// The same from an address of 127.0.0.0/8: to the server, only 127.0.0.1 is its machine.
    ///
    /// # Errors
    /// The connection broke.
    pub fn login_tcp_from(source: Ipv4Addr, port: u16, login: &Login) -> LoginResult {
        Raw::login_over(connect_from(source, port)?, login)
    }

    /// Over a connection on which nothing was sent.
    ///
    /// # Errors
    /// The connection broke.
    pub fn login_over(stream: TcpStream, login: &Login) -> LoginResult {
        stream.set_read_timeout(Some(PATIENCE))?;
        Raw::open(Box::new(stream), login)
    }

    fn open(stream: Box<dyn Stream>, login: &Login) -> LoginResult {
        let mut raw = Raw { stream, sequence: 0, conn: 0, columns: 0, status: 0 };
        let greeting = raw.read_packet()?;
        if greeting.first() == Some(&0xff) {
            return Ok(Err((0, error_number(&greeting))));
        }
        let version_end = greeting.iter().position(|b| *b == 0).ok_or(ErrorKind::InvalidData)?;
        let id = greeting.get(version_end + 1..version_end + 5).ok_or(ErrorKind::InvalidData)?;
        raw.conn = id.iter().rev().fold(0, |id, byte| id << 8 | u64::from(*byte));
        let with_db = if login.db.is_some() { CLIENT_CONNECT_WITH_DB } else { 0 };
        let mut packet = (CAPABILITIES | with_db | login.capabilities).to_le_bytes().to_vec();
        packet.extend(u32::MAX.to_le_bytes());
        packet.push(login.collation);
        packet.extend([0; 19]);
        packet.extend(EXTENDED_CAPABILITIES.to_le_bytes());
        packet.extend(login_tail(login.user, login.response, login.db));
        packet.extend(b"mysql_native_password\0");
        raw.send(&packet)?;
        Ok(match raw.read_login()? {
            0 => Ok(raw),
            errno => Err((raw.conn, errno)),
        })
    }

    /// The answer to a login or to a change of the user: 0, or the error number.
    fn read_login(&mut self) -> io::Result<u16> {
        let mut packet = self.read_packet()?;
        if packet.first() == Some(&0xfe) {
            // The server asks again, with another method or scramble: still without a password.
            self.send(&[])?;
            packet = self.read_packet()?;
        }
        Ok(if packet.first() == Some(&0xff) { error_number(&packet) } else { 0 })
    }

    /// Sends a command and reads no answer.
    ///
    /// # Errors
    /// The connection broke.
    pub fn begin(&mut self, command: u8, body: &[u8]) -> io::Result<()> {
        self.sequence = 0;
        self.send(&[&[command], body].concat())
    }

    /// Sends a command and reads everything that the server answers.
    ///
    /// # Errors
    /// The connection broke.
    pub fn command(&mut self, command: u8, body: &[u8]) -> io::Result<Vec<Answer>> {
        self.begin(command, body)?;
        self.finish(command)
    }

    /// `COM_QUERY`: all its results.
    ///
    /// # Errors
    /// The connection broke.
    pub fn query(&mut self, sql: impl AsRef<[u8]>) -> io::Result<Vec<Answer>> {
        self.command(com::QUERY, sql.as_ref())
    }

    /// `COM_QUERY`s that must succeed.
    ///
    /// # Panics
    /// One did not.
    pub fn must(&mut self, statements: &[&str]) {
        for sql in statements {
            match self.query(sql) {
                Ok(answers) if answers.iter().all(|a| a.errno() == 0) => {}
                other => panic!("{sql}: {other:?}"),
            }
        }
    }

    /// `COM_STMT_PREPARE`: the number of the statement, or of the error.
    ///
    /// # Errors
    /// The connection broke.
    pub fn prepare(&mut self, sql: impl AsRef<[u8]>) -> io::Result<Result<u32, u16>> {
        self.begin(com::STMT_PREPARE, sql.as_ref())?;
        let packet = self.read_packet()?;
        if packet.first() == Some(&0xff) {
            return Ok(Err(error_number(&packet)));
        }
        let number = |at: usize| u16::from_le_bytes([packet[at], packet[at + 1]]);
        for count in [number(5), number(7)] {
            for _ in 0..count + u16::from(count > 0) {
                self.read_packet()?;
            }
        }
        Ok(Ok(u32::from_le_bytes([packet[1], packet[2], packet[3], packet[4]])))
    }

    /// `COM_STMT_EXECUTE` with text parameters; `None` is NULL. `cursor`: rows are fetched
    /// later with `COM_STMT_FETCH`.
    ///
    /// # Errors
    /// The connection broke.
    pub fn execute(
        &mut self,
        id: u32,
        parameters: &[Option<&[u8]>],
        cursor: bool,
    ) -> io::Result<Vec<Answer>> {
        let mut body = id.to_le_bytes().to_vec();
        body.push(u8::from(cursor));
        body.extend(1_u32.to_le_bytes());
        if !parameters.is_empty() {
            let mut nulls = vec![0_u8; parameters.len().div_ceil(8)];
            for (i, _) in parameters.iter().enumerate().filter(|(_, p)| p.is_none()) {
                nulls[i / 8] |= 1 << (i % 8);
            }
            body.extend(nulls);
            body.push(1);
            parameters.iter().for_each(|_| body.extend([0xfd, 0]));
            for text in parameters.iter().copied().flatten() {
                body.extend(length_encoded(text));
            }
        }
        self.command(com::STMT_EXECUTE, &body)
    }

    /// `COM_CHANGE_USER` without a password: 0, or the error number.
    ///
    /// # Errors
    /// The connection broke.
    pub fn change_user(&mut self, user: &[u8], response: &[u8], db: &[u8]) -> io::Result<u16> {
        let mut body = login_tail(user, response, Some(db));
        body.extend([UTF8MB4, 0]);
        body.extend(b"mysql_native_password\0");
        self.begin(com::CHANGE_USER, &body)?;
        self.read_login()
    }

    /// Reads what the server answers to a command that was begun.
    ///
    /// # Errors
    /// The connection broke.
    pub fn finish(&mut self, command: u8) -> io::Result<Vec<Answer>> {
        let mut answers = Vec::new();
        match command {
            com::STMT_CLOSE | com::STMT_SEND_LONG_DATA => return Ok(answers),
            com::QUIT => {
                let mut rest = Vec::new();
                self.stream.read_to_end(&mut rest)?;
                return Ok(answers);
            }
            com::STATISTICS => {
                self.read_packet()?;
                return Ok(vec![Answer::Ok]);
            }
            com::FIELD_LIST | com::STMT_FETCH => return Ok(vec![self.read_rows()?]),
            _ => {}
        }
        loop {
            answers.push(self.read_answer()?);
            if self.status & SERVER_MORE_RESULTS_EXISTS == 0 {
                return Ok(answers);
            }
        }
    }

    /// One result.
    fn read_answer(&mut self) -> io::Result<Answer> {
        self.status = 0;
        let packet = self.read_packet()?;
        match packet.first() {
            Some(0xff) => Ok(Answer::Error(error_number(&packet))),
            Some(0x00) => {
                let (_, after_rows) = read_length(&packet, 1);
                let (_, after_id) = read_length(&packet, after_rows);
                self.status = u16::from_le_bytes([packet[after_id], packet[after_id + 1]]);
                Ok(Answer::Ok)
            }
            Some(0xfb) => {
                // LOAD DATA LOCAL: the name of a file of ours.
                let name = String::from_utf8_lossy(&packet[1..]).into_owned();
                let contents = std::fs::read(name)?;
                self.send(&contents)?;
                if !contents.is_empty() {
                    self.send(&[])?;
                }
                self.read_answer()
            }
            Some(0xfe) => {
                self.status = u16::from_le_bytes([packet[3], packet[4]]);
                Ok(Answer::Ok)
            }
            _ => {
                self.columns = read_length(&packet, 0).0;
                match self.read_rows()? {
                    // The end of the columns; with a cursor there are no rows yet.
                    Answer::Rows { error: None, .. }
                        if self.status & SERVER_STATUS_CURSOR_EXISTS != 0 =>
                    {
                        Ok(Answer::Rows { rows: 0, error: None })
                    }
                    Answer::Rows { error: None, .. } => self.read_rows(),
                    other => Ok(other),
                }
            }
        }
    }

    /// Packets up to an end or an error.
    fn read_rows(&mut self) -> io::Result<Answer> {
        let mut rows = 0;
        loop {
            let packet = self.read_packet()?;
            match packet.first() {
                Some(0xfe) if packet.len() < 9 => {
                    self.status = u16::from_le_bytes([packet[3], packet[4]]);
                    return Ok(Answer::Rows { rows, error: None });
                }
                Some(0xff) => {
                    // Nothing follows an error, whatever the end of the columns announced.
                    self.status = 0;
                    let errno = error_number(&packet);
                    return Ok(match rows {
                        0 => Answer::Error(errno),
                        _ => Answer::Rows { rows, error: Some(errno) },
                    });
                }
                _ => rows += 1,
            }
        }
    }

    /// One packet, unchanged.
    ///
    /// # Errors
    /// The connection broke.
    pub fn read_packet(&mut self) -> io::Result<Vec<u8>> {
        let mut packet = Vec::new();
        loop {
            let mut header = [0; 4];
            self.stream.read_exact(&mut header)?;
            let length =
                usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            self.sequence = header[3].wrapping_add(1);
            let begin = packet.len();
            packet.resize(begin + length, 0);
            self.stream.read_exact(&mut packet[begin..])?;
            if length < 0xff_ffff {
                return Ok(packet);
            }
        }
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        assert!(packet.len() < 0xff_ffff, "one packet only");
        let mut bytes = (packet.len() as u32).to_le_bytes();
        bytes[3] = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
        // One write: half a header is useless.
        self.stream.write_all(&[&bytes, packet].concat())
    }
}

/// A connection to the server's port that has not sent anything yet.
///
/// # Errors
/// There is none.
pub fn connect_from(source: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddr::from((source, 0)))?;
    net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn login_tail(user: &[u8], response: &[u8], db: Option<&[u8]>) -> Vec<u8> {
    let mut tail = [user, b"\0"].concat();
    tail.push(response.len() as u8);
    tail.extend(response);
    if let Some(db) = db {
        tail.extend(db);
        tail.push(0);
    }
    tail
}

/// A length-encoded number at `at`, and where it ends.
fn read_length(packet: &[u8], at: usize) -> (u64, usize) {
    let width = match packet[at] {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        small => return (u64::from(small), at + 1),
    };
    let bytes = &packet[at + 1..at + 1 + width];
    (bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)), at + 1 + width)
}

/// Bytes with their length before them.
pub fn length_encoded(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len();
    let mut out = match length {
        0..=250 => vec![length as u8],
        251..=0xffff => vec![0xfc, length as u8, (length >> 8) as u8],
        _ => vec![0xfd, length as u8, (length >> 8) as u8, (length >> 16) as u8],
    };
    out.extend(bytes);
    out
}

fn error_number(packet: &[u8]) -> u16 {
    match packet {
        [_, low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    }
}
