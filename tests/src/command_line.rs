//! The command-line client of a server, over TCP: `mariadb` or `mysql`, which run a script.

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tacho_sandbox::installation::Product;
use tacho_sandbox::server::PrivateServer;

/// The client of one server.
#[derive(Clone, Debug)]
pub struct CommandLine {
    program: PathBuf,
    port: u16,
    encryption: &'static [&'static str],
    product: Product,
}

impl CommandLine {
    /// That of a server. Its sessions are not encrypted.
    ///
    /// # Panics
    /// There is none.
    pub fn of(server: &PrivateServer) -> Self {
        let installation = server.installation();
        let product = installation.product();
        let (program, encryption): (PathBuf, &[&str]) = match product {
            // That of this machine, for all releases.
            Product::MariaDb => (product.client_name().into(), &["--skip-ssl"]),
            // The first login of an account sends its password, with the key of the server.
            Product::MySql => (
                installation.program(product.client_name()).expect("the client mysql"),
                &["--ssl-mode=DISABLED", "--get-server-public-key"],
            ),
        };
        Self { program, port: server.port(), encryption, product }
    }

    /// The same with TLS.
    #[must_use]
    pub fn encrypted(self) -> Self {
        let encryption: &[&str] = match self.product {
            Product::MariaDb => &["--ssl"],
            Product::MySql => &["--ssl-mode=REQUIRED"],
        };
        Self { encryption, ..self }
    }

    /// Runs a script in one session, after errors, too, and says whether it has succeeded.
    ///
    /// # Panics
    /// The client cannot be started.
    pub fn run(&self, account: (&str, &str), args: &[&str], script: &str) -> bool {
        let mut session = self.start(account, args);
        session.send(script);
        session.end()
    }

    /// Starts a session, which executes what it is sent.
    ///
    /// # Panics
    /// The client cannot be started.
    pub fn start(&self, (user, password): (&str, &str), args: &[&str]) -> Session {
        let child = Command::new(&self.program)
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--force"])
            .arg(format!("--port={}", self.port))
            .args([format!("--user={user}"), format!("--password={password}")])
            .args(self.encryption)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Session(child.expect("the client"))
    }
}

/// A client that reads its script.
#[derive(Debug)]
pub struct Session(Child);

impl Session {
    /// Sends a part of the script.
    ///
    /// # Panics
    /// The client cannot be written to.
    pub fn send(&mut self, script: &str) {
        let pipe = self.0.stdin.as_mut().expect("a pipe");
        // A client that was refused reads nothing.
        if let Err(error) = pipe.write_all(script.as_bytes())
            && error.kind() != ErrorKind::BrokenPipe
        {
            panic!("a script: {error}");
        }
    }

    /// Ends it, and says whether the script has succeeded.
    ///
    /// # Panics
    /// The system does not say.
    pub fn end(mut self) -> bool {
        drop(self.0.stdin.take());
        self.0.wait().expect("its end").success()
    }
}
