//! The options by which a command connects to a server.

use std::fs;
use std::path::PathBuf;

use crate::cli::number;
use anyhow::{Context as _, ensure};
use clap::Args;
use tacho_sandbox::client::{Address, Login};

/// A server, and an account of it. Passwords are never on the command line.
#[derive(Args, Debug)]
pub struct LoginArgs {
    /// Socket of your server
    #[arg(long, value_name = "FILE", conflicts_with = "host")]
    pub socket: Option<PathBuf>,

    /// Your server, over TCP
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,

    /// Its port
    #[arg(long, value_name = "PORT", default_value_t = 3306, requires = "host", value_parser = number::whole::<u16>)]
    pub port: u16,

    /// Account to connect with [default: $USER]
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,

    /// File with its password [default: $MYSQL_PWD]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl LoginArgs {
    /// What to connect with; `None` when no server is named.
    ///
    /// # Errors
    /// There is an account without a server, or none, or no password in the file.
    pub fn login(&self) -> anyhow::Result<Option<Login>> {
        let address = match (&self.socket, &self.host) {
            (Some(socket), _) => Address::Socket(socket.clone()),
            (None, Some(host)) => Address::Tcp(host.clone(), self.port),
            (None, None) => {
                ensure!(
                    self.user.is_none() && self.password_file.is_none(),
                    "--user and --password-file need --socket or --host"
                );
                return Ok(None);
            }
        };
        let user = self.user.clone().or_else(|| std::env::var("USER").ok());
        let password = match &self.password_file {
            Some(path) => fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?
                .trim_end_matches(['\r', '\n'])
                .to_owned(),
            None => std::env::var("MYSQL_PWD").unwrap_or_default(),
        };
        Ok(Some(Login { address, user: user.context("--user is missing")?, password }))
    }
}
