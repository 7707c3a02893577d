//! The server that `tacho capture` asks about sessions.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use tacho_sandbox::client::{Address, Login};

use super::number;
use crate::login::{Defaults, read_password_file};

/// The server, and an account on it.
#[derive(Args, Debug)]
pub struct EnrichArgs {
    /// Ask the server at this Unix socket for the user, database and prepared statements of
    /// sessions that began before
    #[arg(long, value_name = "FILE", requires = "interface", conflicts_with = "enrich_host")]
    pub enrich_socket: Option<PathBuf>,

    /// The same over TCP, without encryption; this connection is recorded like others
    #[arg(long, value_name = "HOST:PORT", requires = "interface", value_parser = host_and_port)]
    pub enrich_host: Option<(String, u16)>,

    /// Address and port of that server in the packets. May be repeated [default: that of --server]
    #[arg(long, value_name = "IP:PORT", requires = "enrich_address")]
    pub enrich_server: Vec<SocketAddr>,

    /// Account for these questions [default: from --enrich-defaults-file]
    #[arg(long, value_name = "USER", requires = "enrich_address")]
    pub enrich_user: Option<String>,

    /// File with its password [default: from --enrich-defaults-file, otherwise none]
    #[arg(long, value_name = "FILE", requires = "enrich_address")]
    pub enrich_password_file: Option<PathBuf>,

    /// Option file (my.cnf) whose [client] group has the account
    #[arg(long, value_name = "FILE", requires = "enrich_address")]
    pub enrich_defaults_file: Option<PathBuf>,
}

/// A host name or address, and a port: IPv6 addresses are in brackets.
fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let wrong = || "expected HOST:PORT, or [ADDRESS]:PORT for IPv6".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = inner.unwrap_or(host);
    if host.is_empty() || inner.is_none() && host.contains(':') {
        return Err(wrong());
    }
    Ok((host.to_owned(), number::whole(port)?))
}

impl EnrichArgs {
    /// The login; `None` if no server is named.
    ///
    /// # Errors
    /// There is no account, or a file cannot be read.
    pub fn login(&self) -> anyhow::Result<Option<Login>> {
        let socket = self.enrich_socket.clone().map(Address::Socket);
        let tcp = self.enrich_host.clone().map(|(host, port)| Address::Tcp(host, port));
        let Some(address) = socket.or(tcp) else { return Ok(None) };
        let defaults = match &self.enrich_defaults_file {
            Some(path) => Defaults::read(path)?,
            None => Defaults::default(),
        };
        let user = self.enrich_user.clone().or(defaults.user);
        let user = user.context("no account: add --enrich-user or --enrich-defaults-file")?;
        let password = match &self.enrich_password_file {
            Some(path) => read_password_file(path)?,
            None => defaults.password.unwrap_or_default(),
        };
        Ok(Some(Login { address, user, password }))
    }
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn a_host_has_a_port() {
        let right = |text| host_and_port(text).expect("a host and a port");
        assert_eq!(right("db.example:3307"), ("db.example".to_owned(), 3307));
        assert_eq!(right("[::1]:1"), ("::1".to_owned(), 1));
        for text in ["db", "db:", ":1", "::1", "::1:3306", "[]:1", "db:70000"] {
            assert!(host_and_port(text).is_err(), "{text}");
        }
    }
}
