//! Releases a server in which every session waits, including the administrator's.

use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::setting_names::SettingNames;
use tacho_ring::layout::{OVERFLOW_BLOCK, OVERFLOW_DROP, OVERFLOW_TIMEOUT};
use tacho_ring::producer::Futex;
use tacho_ring::sync::Ordering;

use super::{ArenaCommandError, show};
use crate::cli::Overflow;
use crate::say;

/// Changes the policy of a living server and wakes the sessions that wait.
///
/// # Errors
/// When the server has ended, or stdout cannot be written to.
pub fn set(file: &ArenaFile, policy: Overflow) -> Result<(), ArenaCommandError> {
    let info = file.info();
    if !info.owned {
        return Err(ArenaCommandError::Ended { path: info.path, pid: info.owner_pid });
    }
    let arena = file.arena();
    let shared = arena.shared();
    let wanted = match policy {
        Overflow::Block => OVERFLOW_BLOCK,
        Overflow::Timeout => OVERFLOW_TIMEOUT,
        Overflow::Drop => OVERFLOW_DROP,
    };
    let waiters = shared.backpressure.0.waiters.load(Ordering::Relaxed);
    let before = shared.settings.0.overflow.swap(wanted, Ordering::Relaxed);
    // Waiting sessions read the policy again.
    shared.backpressure.0.open(&Futex);
    say::result(&format!(
        "The overflow policy of process {} is now {} (was {}); {} waited.",
        info.owner_pid,
        show::policy_name(wanted),
        show::policy_name(before),
        say::counted(waiters.into(), "session")
    ))?;
    if wanted != OVERFLOW_BLOCK {
        say::result("The log counts lost records in `lost` lines.")?;
    }
    say::result(&format!(
        "SHOW VARIABLES still shows the old value; SET GLOBAL {} sets both.",
        SettingNames::of_server(&info.server).name("overflow")
    ))?;
    Ok(())
}
