//! A private server of any supported release, with the names of the recorder there.
//!
//! All properties of a server that `make run` needs are in one row of [`PRODUCTS`].

use std::path::PathBuf;

use anyhow::{Context, Result};
use tacho_sandbox::client::{Conn, Queryable as _};
use tacho_sandbox::installation::Installation;
use tacho_sandbox::server as private;

use crate::{mysql_server, server};

/// One row.
#[derive(Debug)]
pub struct Product {
    /// The value of `SERVER=` in the Makefile.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// The library, below `build/`.
    library: &'static str,
    /// The statement that installs it.
    pub install: &'static str,
    /// The statement that removes it.
    pub uninstall: &'static str,
    /// Prefix of settings, such as `tacho_` in `tacho_logging`.
    variable: &'static str,
    /// Prefix of status variables.
    status: &'static str,
    /// Options that make the server behave like the others.
    options: &'static [&'static str],
    /// Its warnings at every start.
    pub(crate) known: &'static [&'static str],
}

const MARIADB: Product = Product {
    name: "mariadb",
    title: "MariaDB",
    library: "mariadb/tacho.so",
    install: "INSTALL SONAME 'tacho'",
    uninstall: "UNINSTALL SONAME 'tacho'",
    variable: "tacho_",
    status: "Tacho_",
    options: &[],
    known: server::KNOWN,
};

/// Without a binary log, as by default in MariaDB: the comparison is about recording.
const MYSQL_OPTIONS: &[&str] = &["disable-log-bin"];

const PRODUCTS: [Product; 4] = [
    MARIADB,
    Product {
        name: "mariadb-11.8",
        title: "MariaDB 11.8",
        library: "mariadb-11.8/tacho.so",
        ..MARIADB
    },
    Product {
        name: "mysql-9.7",
        title: "MySQL 9.7",
        library: "mysql-9.7/component_tacho.so",
        install: "INSTALL COMPONENT 'file://component_tacho'",
        uninstall: "UNINSTALL COMPONENT 'file://component_tacho'",
        variable: "tacho.",
        status: "tacho.",
        options: MYSQL_OPTIONS,
        known: mysql_server::KNOWN,
    },
    Product {
        name: "mysql-8.0",
        title: "MySQL 8.0",
        library: "mysql-8.0/tacho.so",
        install: "INSTALL PLUGIN tacho SONAME 'tacho.so'",
        uninstall: "UNINSTALL PLUGIN tacho",
        variable: "tacho_",
        status: "Tacho_",
        options: MYSQL_OPTIONS,
        known: mysql_server::KNOWN,
    },
];

impl Product {
    /// The one that `TACHO_SERVER` names, or the MariaDB of this machine.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn wanted() -> Result<&'static Self> {
        let name = match std::env::var("TACHO_SERVER") {
            Ok(name) if !name.is_empty() => name,
            _ => MARIADB.name.to_owned(),
        };
        PRODUCTS.iter().find(|product| product.name == name).with_context(|| {
            let names: Vec<&str> = PRODUCTS.iter().map(|product| product.name).collect();
            format!("there is no server {name}; there are {}", names.join(", "))
        })
    }

    /// Its programs.
    pub fn installation(&self) -> Installation {
        if self.name == MARIADB.name {
            return Installation::system();
        }
        Installation::in_folder(server::cache_directory().join("tachograph").join(self.name))
    }

    /// Our library as it is built for it.
    pub fn library(&self) -> PathBuf {
        crate::build_directory().join(self.library)
    }

    /// Whether it is a MariaDB, which reports a Prepare after the answer, and has a thread pool.
    pub fn is_mariadb(&self) -> bool {
        self.name.starts_with(MARIADB.name)
    }

    /// A server with small buffers and otherwise default settings, with our library in its plugin
    /// directory.
    pub fn builder(&self) -> private::Builder {
        let builder = private::Builder::new(crate::build_directory().join("test"))
            .installation(self.installation())
            .plugin(self.library())
            .option(server::NO_NATIVE_AIO);
        self.options.iter().fold(builder, |builder, option| builder.option(option))
    }

    /// A setting, as `logging`, by its name in this server.
    pub fn variable(&self, name: &str) -> String {
        format!("{}{name}", self.variable)
    }

    /// A status variable, as `records_lost`, by its name in this server.
    pub fn status(&self, name: &str) -> String {
        format!("{}{name}", self.status)
    }

    /// A text with MariaDB's names of settings and status variables, `SET GLOBAL tacho_logging = 0`,
    /// by their names in this server.
    pub fn named(&self, text: &str) -> String {
        text.replace("tacho_", self.variable).replace("Tacho_", self.status)
    }

    /// An option of a server; an option of the recorder, such as `tacho-arena-bytes=1M`, by its
    /// name on this one, which may not know it yet.
    pub fn option(&self, option: &str) -> String {
        match option.strip_prefix("tacho-") {
            Some(setting) if !self.is_mariadb() => format!("loose-{}{setting}", self.variable),
            _ => option.to_owned(),
        }
    }

    /// Installs the library.
    ///
    /// # Errors
    /// The server refuses.
    pub fn install(&self, conn: &mut Conn) -> Result<()> {
        let library = self.library();
        conn.query_drop(self.install)
            .with_context(|| format!("{} was refused ({})", self.install, library.display()))
    }

    /// Lines of the error log that are errors, warnings or marks of a crash, and not known.
    pub fn complaints(&self, server: &private::PrivateServer) -> Vec<String> {
        server::complaints(&server.error_log(), self.known)
    }
}
