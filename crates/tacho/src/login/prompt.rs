//! Asks for a password on the terminal of the process, independently of stdin and stdout.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const DELETE: u8 = 0x7f;

/// A terminal without echo, until this is dropped.
struct Silent {
    terminal: File,
    before: Termios,
}

impl Silent {
    fn new(terminal: File) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut silent = before.clone();
        // Without signals: Ctrl-C must not leave the terminal without echo.
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // A closed terminal has nothing to restore.
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
        let _ = writeln!(self.terminal);
    }
}

/// Reads a password.
///
/// # Errors
/// There is no terminal, or the user typed Ctrl-C.
pub fn password() -> io::Result<String> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
    terminal.write_all(b"Password: ")?;
    let silent = Silent::new(terminal)?;
    typed(BufReader::new(&silent.terminal).bytes())
}

/// The typed line, with its corrections applied.
fn typed(bytes: impl Iterator<Item = io::Result<u8>>) -> io::Result<String> {
    let mut line = Zeroizing::new(Vec::new());
    for byte in bytes {
        match byte? {
            b'\n' | b'\r' | CTRL_D => break,
            CTRL_C => return Err(io::ErrorKind::Interrupted.into()),
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => {
                // All bytes of a character.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte => line.push(byte),
        }
    }
    String::from_utf8(line.to_vec())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the password is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> io::Result<String> {
        typed(text.bytes().map(Ok))
    }

    #[test]
    fn corrections_are_applied() {
        assert_eq!(line("secret\nrest").unwrap(), "secret");
        assert_eq!(line("se\u{7f}ü\u{8}cret\r").unwrap(), "scret");
        assert_eq!(line("wrong\u{15}\u{7f}right").unwrap(), "right");
        assert_eq!(line("a\u{3}\n").unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
