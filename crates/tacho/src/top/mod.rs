//! `tacho top`: what runs now, and what ran in the last minute, from the log and the arena.
//!
//! | module | responsibility |
//! |---|---|
//! | `reader` | a thread that follows the log and counts its lines |
//! | `window` | the counts of the last minute, in sixty parts |
//! | `running` | the statements that have not ended |
//! | `state` | what is shown, and what a key changes |
//! | `screen` | the lines of one update |
//! | `terminal` | shows them in place, and reads keys |

mod reader;
mod running;
mod screen;
mod state;
mod terminal;
mod window;

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Zoned;

use crate::cli::TopArgs;
use crate::signals;
use crate::tail::TailError;
use state::{FIRST_WAIT, Reaction, Top};
use terminal::{Size, Terminal};

/// A pause of the reader, or a check for Ctrl-C without a terminal, lasts at most this long.
const TICK: Duration = Duration::from_millis(100);

/// Runs `tacho top`.
///
/// # Errors
/// See [`TailError`].
pub fn run(args: &TopArgs) -> Result<(), TailError> {
    args.limit.apply();
    let stop = Arc::new(AtomicBool::new(false));
    signals::catch(&stop).map_err(TailError::Signal)?;
    let mut state = Top::new(args, args.zone.zone(&Zoned::now()))?;
    let is_interactive = !args.batch && io::stdout().is_terminal() && io::stdin().is_terminal();
    if is_interactive {
        let mut terminal = Terminal::enter().map_err(TailError::Output)?;
        show(args, &mut state, &mut terminal, &stop)
    } else {
        print(args, &mut state, &stop)
    }
}

/// Whether this was the last update that was asked for.
fn is_last(args: &TopArgs, shown: u32) -> bool {
    args.updates.is_some_and(|updates| shown >= updates)
}

/// Updates the terminal until `q`.
fn show(
    args: &TopArgs,
    state: &mut Top<'_>,
    terminal: &mut Terminal,
    stop: &AtomicBool,
) -> Result<(), TailError> {
    // Existing lines are read in a moment: an empty first screen would be wrong.
    state.wait_for_first(stop, FIRST_WAIT)?;
    for shown in 1.. {
        state.update()?;
        let size = terminal.size();
        terminal.draw(&screen::lines(state, size)).map_err(TailError::Output)?;
        let due = Instant::now() + args.interval;
        while !stop.load(Ordering::Relaxed) {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let Some(key) = terminal.key(left).map_err(TailError::Output)? else { break };
            match state.press(key)? {
                Reaction::Quit => return Ok(()),
                Reaction::Nothing => {}
                Reaction::Draw => {
                    state.update()?;
                    let lines = screen::lines(state, terminal.size());
                    terminal.draw(&lines).map_err(TailError::Output)?;
                }
            }
        }
        if stop.load(Ordering::Relaxed) || is_last(args, shown) {
            break;
        }
    }
    Ok(())
}

/// Prints each update.
fn print(args: &TopArgs, state: &mut Top<'_>, stop: &AtomicBool) -> Result<(), TailError> {
    // A text is not corrected by the next one.
    state.wait_for_first(stop, Duration::MAX)?;
    for shown in 1.. {
        state.update()?;
        let mut text = String::new();
        for line in screen::lines(state, Size::of_text()) {
            text.push_str(&line.text);
            text.push('\n');
        }
        let mut out = io::stdout().lock();
        if shown > 1 {
            text.insert(0, '\n');
        }
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(TailError::Output)?;
        let due = Instant::now() + args.interval;
        if is_last(args, shown) {
            break;
        }
        while !stop.load(Ordering::Relaxed) && Instant::now() < due {
            std::thread::sleep(TICK.min(due.saturating_duration_since(Instant::now())));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}
