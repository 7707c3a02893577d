//! Shows lines in place, and reads keys.
//!
//! `rustix`, which the program has anyway, sets the terminal's mode; the few control sequences are
//! those of ECMA-48 and xterm that every terminal of today has.

use std::io::{self, Write as _};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::screen::{ScreenLine, Style};

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const TO_END_OF_LINE: &str = "\x1b[K";
const TO_END_OF_SCREEN: &str = "\x1b[J";
const REVERSE: &str = "\x1b[7m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// The size of an update in a text.
const TEXT_LINES: usize = 50;

/// Room for an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns; `None`: as many as needed.
    pub width: Option<usize>,
    /// Lines.
    pub height: usize,
}

impl Size {
    /// Of an update that is printed.
    pub fn of_text() -> Self {
        Self { width: None, height: TEXT_LINES }
    }
}

/// A terminal that shows updates until it is dropped.
pub struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Switches to another screen, without a cursor and without echo.
    ///
    /// # Errors
    /// stdin or stdout is no terminal.
    pub fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut mode = before.clone();
        // Ctrl-C and Ctrl-Z keep their meanings.
        mode.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(io::stdin(), OptionalActions::Now, &mode)?;
        // From here on, dropping it restores the mode.
        let terminal = Self { before };
        write(ENTER)?;
        Ok(terminal)
    }

    /// Its size; of one that has none, that of the first terminals.
    pub fn size(&self) -> Size {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { width: Some(size.ws_col.into()), height: size.ws_row.into() }
            }
            _ => Size { width: Some(80), height: 24 },
        }
    }

    /// Shows lines in place of those before.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, lines: &[ScreenLine]) -> io::Result<()> {
        let mut text = HOME.to_owned();
        for (number, line) in lines.iter().enumerate() {
            // A newline behind the last line would scroll.
            if number > 0 {
                text.push_str("\r\n");
            }
            text.push_str(match line.style {
                Style::Plain => "",
                Style::Header => REVERSE,
                Style::Alert => BOLD,
            });
            text.push_str(&line.text);
            text.push_str(TO_END_OF_LINE);
            if line.style != Style::Plain {
                text.push_str(PLAIN);
            }
        }
        text.push_str(TO_END_OF_SCREEN);
        write(&text)
    }

    /// The next key; `None`: none was pressed in this time, or the terminal's size has changed.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn key(&self, wait: Duration) -> io::Result<Option<char>> {
        let stdin = io::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        match poll(&mut ready, Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 16];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            // Keys such as the arrows send more than one byte, the first of which is ESC.
            Ok(_) => Ok(Some(char::from(bytes[0]))),
            Err(Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
