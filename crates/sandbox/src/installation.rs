//! The programs of a server: installed on this machine, or in a folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The product of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Product {
    /// MariaDB.
    #[default]
    MariaDb,
    /// MySQL 8.4 or later.
    MySql,
}

/// An installation of MariaDB or MySQL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    /// `None`: the system's.
    root: Option<PathBuf>,
    product: Product,
}

impl Product {
    /// The server program.
    pub fn server_name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadbd",
            Self::MySql => "mysqld",
        }
    }

    /// Its client program: each supports every login to its own server.
    pub fn client_name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
        }
    }

    /// The option for the size of InnoDB's redo log.
    pub fn redo_log_option(self, mebibytes: u32) -> String {
        match self {
            Self::MariaDb => format!("--innodb-log-file-size={mebibytes}M"),
            Self::MySql => format!("--innodb-redo-log-capacity={mebibytes}M"),
        }
    }
}

impl Installation {
    /// The one of this machine.
    pub fn system() -> Self {
        Self::default()
    }

    /// One whose `/usr` is in a folder, as `scripts/setup-mariadb-11.8.sh` and
    /// `scripts/setup-mysql.sh` create it. Its server program determines the product.
    pub fn in_folder(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let product = [Product::MariaDb, Product::MySql].into_iter().find(|product| {
            ["usr/sbin", "usr/bin"]
                .iter()
                .any(|place| root.join(place).join(product.server_name()).is_file())
        });
        // Without any of them there is nothing to start, which starting it will report.
        Self { root: Some(root), product: product.unwrap_or_default() }
    }

    /// Its product.
    pub fn product(&self) -> Product {
        self.product
    }

    /// Its `/usr`.
    pub fn usr(&self) -> PathBuf {
        self.root.as_deref().unwrap_or(Path::new("/")).join("usr")
    }

    /// One of its programs. Not every `PATH` contains sbin.
    ///
    /// # Errors
    /// There is no such program.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
        let places: Vec<PathBuf> = match &self.root {
            Some(root) => usual[..2].iter().map(|place| root.join(&place[1..])).collect(),
            None => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                std::env::split_paths(&path).chain(usual.iter().map(PathBuf::from)).collect()
            }
        };
        places
            .iter()
            .map(|place| place.join(name))
            .find(|candidate| candidate.is_file())
            .with_context(|| format!("{name} is not installed (scripts/setup.sh installs it)"))
    }

    /// Its headers, if it is in a folder.
    pub(crate) fn headers(&self) -> Option<PathBuf> {
        self.root.as_ref().map(|_| self.usr().join("include/mariadb"))
    }

    /// The headers for a component of its MySQL.
    pub(crate) fn component_headers(&self) -> Option<PathBuf> {
        let headers = self.root.as_ref()?.join("source/include");
        headers.join("mysql/components").is_dir().then_some(headers)
    }

    /// Options with which its programs find their own files.
    pub(crate) fn options(&self) -> Vec<String> {
        match &self.root {
            Some(_) => vec![format!("--basedir={}", self.usr().display())],
            None => Vec::new(),
        }
    }
}
