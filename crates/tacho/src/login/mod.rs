//! The options with which a command connects to a server.

mod prompt;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use tacho_sandbox::client::{Address, Login};

use crate::cli::number;
use crate::option_file::{self, Reader};

/// Default port of a server.
const PORT: u16 = 3306;

/// A server, and an account on it. A password is never on the command line, where other users
/// of the machine can read it.
#[derive(Args, Debug)]
pub struct LoginArgs {
    /// Unix socket of the server
    #[arg(long, value_name = "FILE", conflicts_with = "host")]
    pub socket: Option<PathBuf>,

    /// Host of the server, for a connection over TCP
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,

    /// Port of the server [default: 3306]
    #[arg(long, value_name = "PORT", value_parser = number::whole::<u16>)]
    pub port: Option<u16>,

    /// Account to log in with [default: from --defaults-file, then $USER]
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,

    /// Ask for the password on the terminal
    #[arg(short, long, conflicts_with = "password_file")]
    pub password: bool,

    /// File with the password [default: from --defaults-file, then $MYSQL_PWD]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// Option file (my.cnf) whose [client] group has the login
    #[arg(long, value_name = "FILE")]
    pub defaults_file: Option<PathBuf>,
}

impl LoginArgs {
    /// Whether a server is named.
    pub fn names_server(&self) -> bool {
        self.socket.is_some() || self.host.is_some() || self.defaults_file.is_some()
    }

    /// The login; `None` if no server is named.
    ///
    /// # Errors
    /// There is an account without a server, or no account, or the password cannot be read.
    pub fn login(&self) -> anyhow::Result<Option<Login>> {
        if !self.names_server() {
            let alone = [
                ("--port", self.port.is_some()),
                ("--user", self.user.is_some()),
                ("--password", self.password),
                ("--password-file", self.password_file.is_some()),
            ];
            if let Some((option, _)) = alone.iter().find(|(_, is_given)| *is_given) {
                bail!("{option} needs a server: add --socket, --host or --defaults-file");
            }
            return Ok(None);
        }
        let defaults = match &self.defaults_file {
            Some(path) => Defaults::read(path)?,
            None => Defaults::default(),
        };
        let address = self.address(&defaults)?;
        let user = self.user.clone().or(defaults.user).or_else(|| std::env::var("USER").ok());
        let user = user.context("no account: add --user")?;
        let environment = || std::env::var("MYSQL_PWD").ok();
        let password = match self.read_password()? {
            Some(password) => password,
            None => defaults.password.or_else(environment).unwrap_or_default(),
        };
        Ok(Some(Login { address, user, password }))
    }

    fn address(&self, defaults: &Defaults) -> anyhow::Result<Address> {
        let port = self.port.or(defaults.port).unwrap_or(PORT);
        let tcp = |host: &String| Address::Tcp(host.clone(), port);
        let given = self.socket.clone().map(Address::Socket).or(self.host.as_ref().map(tcp));
        let socket = defaults.socket.clone().map(Address::Socket);
        given.or(socket).or(defaults.host.as_ref().map(tcp)).context(
            "the [client] group of --defaults-file has no socket and no host: add --socket or \
             --host",
        )
    }

    /// The password from the command line's options; `None` if there are none.
    ///
    /// # Errors
    /// The file cannot be read, or there is no terminal.
    pub fn read_password(&self) -> anyhow::Result<Option<String>> {
        if self.password {
            return prompt::password().context("cannot ask for the password").map(Some);
        }
        self.password_file.as_deref().map(read_password_file).transpose()
    }

    /// The login as options of the client programs, without the password.
    pub fn client_options(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| {
            let mut option = OsString::from(name);
            option.push(value);
            options.push(option);
        };
        // The client program requires this option to be the first.
        if let Some(file) = &self.defaults_file {
            add("--defaults-file=", file.into());
        }
        if let Some(socket) = &self.socket {
            add("--socket=", socket.into());
        }
        if let Some(host) = &self.host {
            add("--host=", host.into());
        }
        if let Some(port) = self.port {
            add("--port=", port.to_string().into());
        }
        if let Some(user) = &self.user {
            add("--user=", user.into());
        }
        options
    }
}

/// The password in a file, without the end of its line.
///
/// # Errors
/// The file cannot be read.
pub fn read_password_file(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the password file {}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The login in an option file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    socket: Option<PathBuf>,
    host: Option<String>,
    port: Option<u16>,
    /// The account.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
}

impl Defaults {
    /// Reads the groups of client programs.
    ///
    /// # Errors
    /// A file cannot be read, or has a port that is none.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let mut defaults = Self::default();
        for (name, value) in option_file::read(path, Reader::Client)? {
            match name.as_str() {
                "socket" => defaults.socket = Some(value.into()),
                "host" => defaults.host = Some(value),
                "port" => {
                    let port = number::whole(&value);
                    let port = port.map_err(|reason| {
                        anyhow::anyhow!("{}: port = {value}: {reason}", path.display())
                    })?;
                    defaults.port = Some(port);
                }
                "user" => defaults.user = Some(value),
                "password" => defaults.password = Some(value),
                _ => {}
            }
        }
        Ok(defaults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        login: LoginArgs,
    }

    fn login(args: &[&str]) -> anyhow::Result<Option<Login>> {
        Command::parse_from([&["x"], args].concat()).login.login()
    }

    #[test]
    fn an_account_needs_a_server() {
        assert!(login(&[]).expect("fine").is_none());
        for args in [&["--user", "a"][..], &["--port", "1"], &["--password"]] {
            let error = login(args).expect_err("no server").to_string();
            assert!(error.starts_with(&format!("{} needs a server", args[0])), "{error}");
        }
    }

    #[test]
    fn the_command_line_precedes_the_option_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).expect("written");
            path.to_str().expect("text").to_owned()
        };
        let text = "[mysqld]\nuser=mysql\nport=1\n[client]\nuser=app\npassword='a b#c'\nport=3307\n\
                    host=db.example\n";
        let (file, secret) = (path("my.cnf", text), path("secret", "other\n"));
        let found = login(&["--defaults-file", &file]).expect("fine").expect("a login");
        assert_eq!(found.address, Address::Tcp("db.example".to_owned(), 3307));
        assert_eq!((found.user.as_str(), found.password.as_str()), ("app", "a b#c"));
        let args =
            ["--defaults-file", &file, "--socket", "/s", "--user", "root", "--password-file"];
        let found = login(&[&args[..], &[&secret]].concat()).expect("fine").expect("a login");
        assert_eq!(found.address, Address::Socket("/s".into()));
        assert_eq!((found.user.as_str(), found.password.as_str()), ("root", "other"));
        let empty = path("empty.cnf", "");
        let error = login(&["--defaults-file", &empty]).expect_err("no server").to_string();
        assert!(error.contains("add --socket or --host"), "{error}");
    }
}
