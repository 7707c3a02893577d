//! Ctrl-C and SIGTERM.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

/// Makes Ctrl-C and SIGTERM set `stop`, so that the line being written is finished. The second
/// signal ends the program immediately, in case stdout is blocked.
///
/// # Errors
/// The handlers cannot be installed.
pub fn catch(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in the order of their registration: the first signal finds `stop` unset.
        let code = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(stop))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}
