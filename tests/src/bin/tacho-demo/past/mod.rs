//! The past day: servers with applications, people and incidents, written as sealed logs with the
//! clock of that day. Then they continue in the present.
//!
//! | module | contents |
//! |---|---|
//! | `plans` | the servers, and what happens to them |
//! | `apps`, `visit` | applications, people |
//! | `shape` | statements |
//! | `crowd` | the connections of an application |
//! | `server` | all of that in the order of time |
//! | `log` | lines and seals, by the parts of the recorder |
//! | `clock`, `random` | time and chance |

mod apps;
mod clock;
mod crowd;
mod log;
mod plans;
mod random;
mod server;
mod shape;
mod visit;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use clock::SECOND_US;
pub use server::Server;

/// How long the past is.
const HOURS: i64 = 25;
/// Progress is shown so often.
const STEPS: i64 = 20;

/// Now, µs since 1970-01-01 UTC.
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as i64
}

/// Writes the logs of the past day below `root`. `density`: the traffic, compared with the usual
/// one. `progress` is called with a part of 1, and may end it by an error.
pub fn write(
    root: &Path,
    density: f64,
    mut progress: impl FnMut(f64) -> Result<()>,
) -> Result<Vec<Server>> {
    let now_us = now_us();
    let begin_us = now_us - HOURS * 3_600 * SECOND_US;
    let mut servers = Vec::new();
    for (plan, number) in plans::PLANS.iter().zip(1..) {
        servers.push(Server::start(plan, number, root, (begin_us, now_us), density)?);
    }
    for step in 1..=STEPS {
        progress((step - 1) as f64 / STEPS as f64)?;
        for server in &mut servers {
            server.advance(begin_us + (now_us - begin_us) / STEPS * step)?;
        }
    }
    progress(1.0)?;
    for server in &mut servers {
        server.log().be_live();
    }
    Ok(servers)
}
