//! Interrupts: the run ends at the next wait, and restores everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How long a signal may go unnoticed.
const STEP: Duration = Duration::from_millis(50);

/// The run was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Whether the run must end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Handles SIGINT, SIGTERM and SIGHUP from now on. They no longer end the process: its changes
    /// on the server would remain.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn on_signals() -> Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    /// # Errors
    /// [`Interrupted`] after a signal.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            bail!(Interrupted);
        }
        Ok(())
    }

    /// Waits.
    ///
    /// # Errors
    /// [`Interrupted`], soon after a signal.
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        let until = Instant::now() + duration;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(STEP));
        }
    }
}
