//! `--log DIR`: a log directory of this machine, without a shipper.
//!
//! A thread runs the same client as `tacho ship`, against a listener of this process that only it
//! knows: on loopback, with a token that ends with the process. So there is one way in which a log
//! lands, with the same checks, waits and forks, and it works whatever the public listener speaks.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context as _;
use tacho_logdir::read::content::Access;
use tacho_ship::hub::{Client, ClientOptions, Options, Shipper};
use tacho_ship::protocol::Origin;

use crate::audit::is_hub;
use crate::clock::now_us;
use crate::data::{DataDirectory, make_directory};
use crate::database::Database;
use crate::roles::{Role, Scope};
use crate::say::say;
use crate::tokens::{self, TokenGrant};

/// How long the token of a local log is valid. A process that runs longer gets another one at the
/// next start; the shipper says so if it ends before.
const TOKEN_US: i64 = 10 * 365 * 86_400 * 1_000_000;

/// Value of `--log`: a directory, or `NAME=DIR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalLog {
    /// Name of the server; `None`: that of this machine.
    pub name: Option<Origin>,
    /// The log directory.
    pub directory: PathBuf,
}

impl FromStr for LocalLog {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((name, directory)) = text.split_once('=')
            && let Ok(name) = name.parse()
        {
            return Ok(Self { name: Some(name), directory: directory.into() });
        }
        Ok(Self { name: None, directory: text.into() })
    }
}

/// Names of local logs.
///
/// # Errors
/// Two have the same name, or this machine's name cannot be one.
pub fn named(logs: &[LocalLog]) -> anyhow::Result<Vec<(Origin, PathBuf)>> {
    let mut names = BTreeSet::new();
    let mut named = Vec::new();
    for log in logs {
        let name = match &log.name {
            Some(name) => name.clone(),
            None => host_name().parse().with_context(|| {
                format!("{}: name the log with --log NAME=DIR", log.directory.display())
            })?,
        };
        anyhow::ensure!(
            !is_hub(&name),
            "{name} is the name of the hub's own log: name the log with --log NAME=DIR"
        );
        anyhow::ensure!(
            names.insert(name.clone()),
            "two logs have the name {name}: name them with --log NAME=DIR"
        );
        named.push((name, log.directory.clone()));
    }
    Ok(named)
}

/// Name of this machine.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Threads that ship local logs, until it is dropped.
pub struct LocalShippers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    token_files: Vec<PathBuf>,
}

impl LocalShippers {
    /// Starts a thread for each log.
    ///
    /// # Errors
    /// A token cannot be made, or there can be no more threads.
    pub fn start(
        logs: Vec<(Origin, PathBuf)>,
        data: &DataDirectory,
        database: &Database,
        listener: SocketAddr,
    ) -> anyhow::Result<Self> {
        let mut shippers =
            Self { stop: Arc::default(), threads: Vec::new(), token_files: Vec::new() };
        let tokens = data.path().join("local");
        make_directory(&tokens)?;
        for (origin, directory) in logs {
            let token_file = tokens.join(format!("{origin}.token"));
            let text = token(database, &origin)?;
            write_private(&token_file, &text)
                .with_context(|| format!("cannot write {}", token_file.display()))?;
            shippers.token_files.push(token_file.clone());
            let client = Client::new(&ClientOptions {
                address: format!("http://{listener}").parse().map_err(anyhow::Error::msg)?,
                origin: origin.clone(),
                token_file,
                ca: None,
            })?;
            let name = origin.clone();
            let options = Options {
                directory,
                access: Access::default(),
                once: false,
                bytes_per_second: 0,
                give_up_after: None,
                state: None,
                // The port may be another one at the next start, and a line of this one in
                // `.shipped` would keep the recorder waiting.
                retain: false,
                host: host_name(),
                activity: None,
                stop: Arc::clone(&shippers.stop),
                report: Arc::new(move |text| say(&format!("{name}: {text}"))),
            };
            let thread = std::thread::Builder::new().name(format!("ship-{origin}"));
            let thread = thread.spawn(move || {
                if let Err(error) = Shipper::new(client, options).run() {
                    say(&format!("{origin}: shipping ended: {error}"));
                }
            });
            shippers.threads.push(thread.context("cannot start a thread")?);
        }
        Ok(shippers)
    }
}

impl Drop for LocalShippers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                say("a local shipper ended by a panic");
            }
        }
        for path in &self.token_files {
            if let Err(error) = std::fs::remove_file(path) {
                say(&format!("cannot remove {}: {error}", path.display()));
            }
        }
    }
}

/// A token for one origin. The one of the last start ends.
fn token(database: &Database, origin: &Origin) -> Result<String, tokens::TokenError> {
    let name = format!("--log {origin}");
    let now_us = now_us();
    tokens::revoke(database, &name, now_us)?;
    let scope = Scope::Servers(vec![origin.clone()]);
    let expires_us = Some(now_us.saturating_add(TOKEN_US));
    let grant = TokenGrant { name, roles: Role::Agent.into(), scope, expires_us };
    tokens::create_own(database, &grant, now_us)
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_name_of_its_own_or_that_of_the_machine() {
        let parse = |text: &str| text.parse::<LocalLog>().unwrap();
        assert_eq!(parse("db1=/a=b").directory, Path::new("/a=b"));
        assert_eq!(parse("/a=b"), LocalLog { name: None, directory: "/a=b".into() });
        let logs = [parse("db1=/a"), parse("db2=/b")];
        assert_eq!(named(&logs).unwrap()[1].0.as_str(), "db2");
        assert!(named(&[parse("x=/a"), parse("x=/b")]).is_err());
        assert!(named(&[parse("tacho-hub=/a")]).is_err());
    }
}
