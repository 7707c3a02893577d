//! Where MariaDB and MySQL differ: how to install and remove a library, and the names of its
//! contents.
//!
//! | server | a library is | its settings |
//! |---|---|---|
//! | MariaDB | `INSTALL SONAME 'tacho'` | `tacho_logging` |
//! | MySQL before 8.4 | `INSTALL PLUGIN tacho SONAME 'tacho.so'` | `tacho_logging` |
//! | MySQL, if there is a component | `INSTALL COMPONENT 'file://component_tacho'` | `tacho.logging` |

use std::collections::BTreeSet;

use anyhow::Result;

use crate::client::{Conn, Queryable};
use crate::installation::{Installation, Product};
use crate::template;

/// The first MySQL with audit events for components.
const COMPONENTS_SINCE: &str = "8.4";

/// What a server supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    product: Product,
    version: Vec<u32>,
}

impl Dialect {
    /// From the result of `SELECT VERSION()`.
    pub fn of_version(version: &str) -> Self {
        let product = if version.contains("MariaDB") { Product::MariaDb } else { Product::MySql };
        Self { product, version: version_numbers(version) }
    }

    /// For a server that is not started yet.
    ///
    /// # Errors
    /// Its program does not exist, or does not report its version.
    pub fn of_installation(installation: &Installation) -> Result<Self> {
        let version = template::server_version(installation)?;
        Ok(Self { product: installation.product(), version: version_numbers(&version) })
    }

    /// The product of the server.
    pub fn product(&self) -> Product {
        self.product
    }

    /// Whether it is this version or a later one.
    pub fn is_at_least(&self, version: &str) -> bool {
        self.version >= version_numbers(version)
    }

    /// Whether components can subscribe to events.
    pub fn has_components(&self) -> bool {
        self.product == Product::MySql && self.is_at_least(COMPONENTS_SINCE)
    }

    /// The folder below `build/` in which `make build` puts the libraries for this server.
    pub fn build_folder(&self) -> String {
        match (self.product, &*self.version) {
            (Product::MySql, [major, minor, ..]) => format!("mysql-{major}.{minor}"),
            (Product::MySql, _) => "mysql".to_owned(),
            (Product::MariaDb, _) => "mariadb".to_owned(),
        }
    }

    /// The libraries that a server has installed, without `.so`.
    ///
    /// # Errors
    /// The server rejects the query.
    pub fn installed(&self, conn: &mut Conn) -> Result<BTreeSet<String>> {
        let mut names: Vec<String> = conn.query(
            "SELECT DISTINCT PLUGIN_LIBRARY FROM information_schema.PLUGINS \
             WHERE PLUGIN_LIBRARY IS NOT NULL",
        )?;
        if self.has_components() {
            // An account that cannot read the table cannot install any either, and gets an error
            // when it tries.
            let components: Vec<String> =
                unless_denied(conn.query("SELECT component_urn FROM mysql.component"))?;
            names.extend(components.iter().map(|urn| urn.trim_start_matches("file://").to_owned()));
        }
        Ok(names.iter().map(|name| name.trim_end_matches(".so").to_owned()).collect())
    }

    /// The kernel ids of the threads that serve a connection now. Empty if the server does not
    /// report them: a MySQL whose performance schema is off, or may not be read.
    ///
    /// # Errors
    /// The server rejects the query.
    pub fn serving_threads(&self, conn: &mut Conn) -> Result<Vec<u32>> {
        unless_denied(match self.product {
            Product::MariaDb => conn.query("SELECT TID FROM information_schema.PROCESSLIST"),
            Product::MySql => conn.query(
                "SELECT THREAD_OS_ID FROM performance_schema.threads \
                 WHERE THREAD_OS_ID IS NOT NULL AND PROCESSLIST_ID IS NOT NULL",
            ),
        })
    }
}

/// Empty if the account may not read a table.
fn unless_denied<T>(answer: mysql::Result<Vec<T>>) -> Result<Vec<T>> {
    const ER_TABLEACCESS_DENIED_ERROR: u16 = 1142;
    match answer {
        Err(mysql::Error::MySqlError(error)) if error.code == ER_TABLEACCESS_DENIED_ERROR => {
            Ok(Vec::new())
        }
        answer => Ok(answer?),
    }
}

/// A shared library that extends a server; its name has no `.so`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// All plugins in it, as in MariaDB.
    Soname(String),
    /// The plugin of the same name in it, as in MySQL.
    Plugin(String),
    /// The component in it.
    Component(String),
}

impl Library {
    /// Its name, without `.so`.
    pub fn name(&self) -> &str {
        match self {
            Self::Soname(name) | Self::Plugin(name) | Self::Component(name) => name,
        }
    }

    /// Its file.
    pub fn file(&self) -> String {
        format!("{}.so", self.name())
    }

    /// The statement that installs it.
    pub fn install(&self) -> String {
        match self {
            Self::Soname(name) => format!("INSTALL SONAME '{name}'"),
            Self::Plugin(name) => format!("INSTALL PLUGIN {name} SONAME '{name}.so'"),
            Self::Component(name) => format!("INSTALL COMPONENT 'file://{name}'"),
        }
    }

    /// The statement that removes it; it is not an error if there is none, or see [`is_gone`].
    pub fn uninstall(&self) -> String {
        match self {
            Self::Soname(name) => format!("UNINSTALL SONAME IF EXISTS '{name}'"),
            Self::Plugin(name) => format!("UNINSTALL PLUGIN {name}"),
            Self::Component(name) => format!("UNINSTALL COMPONENT 'file://{name}'"),
        }
    }

    /// The table in which the server stores it, and the column of its name.
    pub fn remembered_in(&self) -> (&'static str, &'static str) {
        match self {
            Self::Soname(_) | Self::Plugin(_) => ("mysql.plugin", "name"),
            Self::Component(_) => ("mysql.component", "component_urn"),
        }
    }
}

/// Whether a statement failed because the library to remove does not exist.
pub fn is_gone(statement: &str, error: &mysql::Error) -> bool {
    const ER_SP_DOES_NOT_EXIST: u16 = 1305;
    const ER_COMPONENTS_UNLOAD_NOT_LOADED: u16 = 3537;
    let mysql::Error::MySqlError(error) = error else { return false };
    statement.starts_with("UNINSTALL ")
        && matches!(error.code, ER_SP_DOES_NOT_EXIST | ER_COMPONENTS_UNLOAD_NOT_LOADED)
}

/// `10.11.19` of `10.11.19-MariaDB-…` as numbers.
fn version_numbers(version: &str) -> Vec<u32> {
    version
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next()
        .unwrap_or_default()
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version_numbers("10.11.19-MariaDB-0+deb12u1"), [10, 11, 19]);
        assert!(version_numbers("10.11.2") > version_numbers("10.4"));
        assert!(version_numbers("8.0.33") >= version_numbers("8.0"));
        assert!(version_numbers("9.1") < version_numbers("10.4"));
    }

    #[test]
    fn a_server_is_known_by_its_version() {
        let of = Dialect::of_version;
        let mariadb = of("11.8.6-MariaDB-0+deb13u1-log");
        assert_eq!((mariadb.product(), mariadb.has_components()), (Product::MariaDb, false));
        let mysql = of("8.0.33-25");
        assert_eq!((mysql.product(), mysql.has_components()), (Product::MySql, false));
        assert!(mysql.is_at_least("8.0") && !mysql.is_at_least("8.0.34"));
        assert!(of("8.4.0").has_components());
        assert_eq!(of("9.7.4").build_folder(), "mysql-9.7");
    }
}
