//! A private server of any release that records from its first start on: for tests on all servers.
//! `TACHO_SERVER` selects the release; the default is the MariaDB of this machine.
//!
//! Settings and status variables are named as in MariaDB.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use anyhow::Result;
use tacho_sandbox::server as private;

use crate::client::{self, Conn, Queryable as _};
use crate::disk::Disk;
use crate::product::Product;
use crate::server;

/// Settings of a server that is not started yet.
#[derive(Debug)]
pub struct Builder {
    builder: private::Builder,
    product: &'static Product,
}

impl Builder {
    /// Adds a server option, without dashes before it: `tacho-arena-bytes=1M`. Later ones win.
    #[must_use]
    pub fn option(mut self, option: impl AsRef<str>) -> Self {
        self.builder = self.builder.option(self.product.option(option.as_ref()));
        self
    }

    /// Adds some.
    #[must_use]
    pub fn options(self, options: &[&str]) -> Self {
        options.iter().fold(self, |builder, option| builder.option(option))
    }

    /// Makes it obey file permissions, even if these tests are run by root.
    #[must_use]
    pub fn unprivileged(mut self) -> Self {
        if rustix::process::geteuid().is_root() {
            self.builder = self.builder.prefix(server::OBEYS_PERMISSIONS);
        }
        self
    }

    /// Has the log on this disk.
    #[must_use]
    pub fn on(mut self, disk: &Disk) -> Self {
        self = self.option(format!("tacho-directory={}", disk.log_directory().display()));
        self.builder = disk.hold(self.builder);
        self
    }

    /// Starts the server and waits until it answers, and records.
    ///
    /// # Errors
    /// The library is not built, the server is not there, or did not come up.
    pub fn start(self) -> Result<Recording> {
        let Self { builder, product } = self;
        let recording = Recording { server: builder.start()?, product };
        if !product.is_mariadb() {
            product.install(&mut recording.connect()?)?;
        }
        Ok(recording)
    }
}

/// A running, or stopped, private server that records.
#[derive(Debug)]
pub struct Recording {
    server: private::PrivateServer,
    /// Which release it is.
    pub product: &'static Product,
}

impl Recording {
    /// A server with small buffers and otherwise default settings.
    ///
    /// # Panics
    /// `TACHO_SERVER` has an unknown value.
    #[must_use]
    pub fn builder() -> Builder {
        let product = Product::wanted().expect("a server");
        let builder = product.builder();
        let builder = match product.is_mariadb() {
            true => builder.option("plugin-load-add=tacho"),
            // It is installed when the server has started, and stays installed.
            false => builder,
        };
        Builder { builder, product }
    }

    /// The log directory, unless it was changed.
    #[must_use]
    pub fn log_directory(&self) -> PathBuf {
        self.data_directory().join("tacho")
    }

    /// Adds an option for the next start.
    pub fn add_option(&mut self, option: &str) {
        let option = self.product.option(option);
        self.server.add_option(&option);
    }

    /// The value of a status variable: `Tacho_writer`.
    ///
    /// # Panics
    /// There is no answer.
    #[must_use]
    pub fn status(&self, name: &str) -> String {
        self.status_over(&mut self.connect().expect("a connection"), name)
    }

    /// The same in an existing session: a new one may have to wait.
    ///
    /// # Panics
    /// There is no answer.
    #[must_use]
    pub fn status_over(&self, conn: &mut Conn, name: &str) -> String {
        let name = self.product.named(name);
        client::status(conn, &name).expect("status").remove(&name).unwrap_or_default()
    }

    /// One that is a number.
    ///
    /// # Panics
    /// There is no answer, or it is none.
    #[must_use]
    pub fn number(&self, conn: &mut Conn, name: &str) -> u64 {
        client::status_number(conn, &self.product.named(name)).expect("status")
    }

    /// Changes a setting: `tacho_writer = EXTERNAL`.
    ///
    /// # Panics
    /// The server refuses.
    pub fn set(&self, setting: &str) {
        let mut conn = self.connect().expect("a connection");
        conn.query_drop(self.product.named(&format!("SET GLOBAL {setting}"))).expect("an answer");
    }

    /// Lines of the error log that are errors, warnings or marks of a crash and contain
    /// none of the `allowed` texts.
    #[must_use]
    pub fn complaints(&self, allowed: &[&str]) -> Vec<String> {
        server::complaints(&self.error_log(), &[allowed, self.product.known].concat())
    }

    /// # Panics
    /// The error log has a line that [`Recording::complaints`] names.
    pub fn assert_clean_log(&self, allowed: &[&str]) {
        server::assert_none(&self.complaints(allowed));
    }
}

impl Deref for Recording {
    type Target = private::PrivateServer;

    fn deref(&self) -> &Self::Target {
        &self.server
    }
}

impl DerefMut for Recording {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.server
    }
}

impl Drop for Recording {
    /// # Panics
    /// The server does not stop in the orderly way although the test has passed so far.
    fn drop(&mut self) {
        server::stop_or_keep(&mut self.server);
    }
}
