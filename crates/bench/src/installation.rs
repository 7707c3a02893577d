//! Where the programs of a server are: installed on this machine, or in a folder of their own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Whose server it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Product {
    /// MariaDB.
    #[default]
    MariaDb,
    /// MySQL 8.4 or later.
    MySql,
}

/// A MariaDB, or MySQL, to start servers of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    /// `None`: the system's.
    root: Option<PathBuf>,
    product: Product,
}

impl Installation {
    /// That of this machine.
    pub fn system() -> Self {
        Self::default()
    }

    /// One whose `/usr` lies in a folder, as `scripts/setup-mariadb-11.8.sh` makes it.
    pub fn in_folder(root: impl Into<PathBuf>) -> Self {
        Self { root: Some(root.into()), product: Product::MariaDb }
    }

    /// A MySQL in a folder, as `scripts/setup-mysql.sh` makes it.
    pub fn mysql_in_folder(root: impl Into<PathBuf>) -> Self {
        Self { root: Some(root.into()), product: Product::MySql }
    }

    /// Whose it is.
    pub fn product(&self) -> Product {
        self.product
    }

    /// The server program.
    pub(crate) fn server_name(&self) -> &'static str {
        match self.product {
            Product::MariaDb => "mariadbd",
            Product::MySql => "mysqld",
        }
    }

    /// Its `/usr`.
    pub fn usr(&self) -> PathBuf {
        self.root.as_deref().unwrap_or(Path::new("/")).join("usr")
    }

    /// A program of it. sbin is not on everybody's `PATH`.
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

    /// Where its headers are, if it is in a folder of its own.
    pub(crate) fn headers(&self) -> Option<PathBuf> {
        self.root.as_ref().map(|_| self.usr().join("include/mariadb"))
    }

    /// Options by which its programs find their own files.
    pub(crate) fn options(&self) -> Vec<String> {
        match &self.root {
            Some(_) => vec![format!("--basedir={}", self.usr().display())],
            None => Vec::new(),
        }
    }
}
