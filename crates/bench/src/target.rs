//! The measured server: the user's, or a private one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::lines::ServerLine;
use crate::load::SCHEMA;
use crate::method::{Method, Switch};
use crate::proc;
use crate::sample::Probe;
use tacho_sandbox::client::{Address, Conn, Login, Queryable};
use tacho_sandbox::dialect::Dialect;
use tacho_sandbox::installation::{Installation, Product};
use tacho_sandbox::plugin;
use tacho_sandbox::server::{Builder, PrivateServer};

/// Account of the load on a private server. It does not have SUPER, which would exempt it from
/// init_connect.
const LOAD_USER: &str = "tacho_bench";

/// Variables that are relevant for the results.
const TOLD_VARIABLES: [&str; 10] = [
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "log_bin",
    "max_connections",
    "performance_schema",
    "query_cache_type",
    "sync_binlog",
    "table_open_cache",
    "thread_cache_size",
    "thread_handling",
];

/// The server.
#[derive(Debug)]
pub struct Target {
    /// For the bench itself.
    pub admin: Login,
    /// For the load.
    pub load: Login,
    /// The private server.
    private: Option<PrivateServer>,
    /// Its process, if it is on this machine.
    pub pid: Option<u32>,
    /// Its threads before any load, except those that served a connection then.
    idle_threads: BTreeSet<u32>,
    version: String,
    dialect: Dialect,
}

/// Options of a private server.
#[derive(Clone, Debug, Default)]
pub struct PrivateOptions {
    /// Most connections of a load.
    pub threads_max: u32,
    /// Options for mariadbd.
    pub options: Vec<String>,
    /// With little memory, for a server that runs in an emulator.
    pub small: bool,
    /// Libraries to use instead of those that are found.
    pub libraries: Vec<PathBuf>,
    /// The installation of its programs.
    pub installation: Installation,
}

impl Target {
    /// Starts a private server in `directory`, with the plugins of these methods. `shared` receives
    /// what several servers have in common. Also returns why methods cannot be used.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start_private(
        shared: &Path,
        directory: &Path,
        dialect: &Dialect,
        methods: &[Method],
        wanted: &PrivateOptions,
    ) -> Result<(Self, BTreeMap<String, String>)> {
        let mut builder = Builder::new(shared)
            .installation(wanted.installation.clone())
            .directory(directory)
            // Twice as many: after a switch all connections are reopened, and the server may not
            // have closed all the old ones.
            .option(format!("max-connections={}", 2 * wanted.threads_max + 20))
            // All connect at the same time.
            .option(format!("back-log={}", 2 * wanted.threads_max + 80))
            // A table for each connection and table of the load.
            .option(format!("table-open-cache={}", 400 + 4 * wanted.threads_max));
        let product = wanted.installation.product();
        if !wanted.small {
            builder =
                builder.option("innodb-buffer-pool-size=256M").option(product.redo_log_option(256));
        }
        if product == Product::MySql {
            // As with MariaDB, a method adds the binary log.
            builder = builder.option("disable-log-bin");
        }
        for option in &wanted.options {
            builder = builder.option(option);
        }
        let mut missing = BTreeMap::new();
        let mut copied = BTreeSet::new();
        for method in methods {
            let Some(library) = &method.library else { continue };
            match plugin::find(&wanted.installation, dialect, library, &wanted.libraries, shared) {
                Ok(path) if copied.insert(library.clone()) => builder = builder.plugin(path),
                Ok(_) => {}
                Err(error) => {
                    missing.insert(method.name.clone(), format!("{error:#}"));
                }
            }
        }
        let server = builder.start()?;
        let admin = Login::by_socket(server.socket(), "root");
        let mut target = Self {
            load: Login { user: LOAD_USER.to_owned(), ..admin.clone() },
            admin,
            pid: server.pid(),
            private: Some(server),
            idle_threads: BTreeSet::new(),
            version: String::new(),
            dialect: dialect.clone(),
        };
        let mut conn = target.connect()?;
        conn.query_drop(format!("CREATE USER {LOAD_USER}@localhost"))?;
        conn.query_drop(format!("GRANT ALL ON {SCHEMA}.* TO {LOAD_USER}@localhost"))?;
        target.version = conn.query_first("SELECT VERSION()")?.context("no version")?;
        target.note_threads(&mut conn)?;
        Ok((target, missing))
    }

    /// Connects to a user's server.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn own(login: &Login) -> Result<Self> {
        let mut conn =
            login.connect().with_context(|| format!("cannot connect to {}", login.address))?;
        let version: String = conn.query_first("SELECT VERSION()")?.context("no version")?;
        let mut target = Self {
            admin: login.clone(),
            load: login.clone(),
            private: None,
            pid: local_pid(login, &mut conn)?,
            idle_threads: BTreeSet::new(),
            dialect: Dialect::of_version(&version),
            version,
        };
        target.note_threads(&mut conn)?;
        Ok(target)
    }

    /// Whether the bench started it.
    pub fn is_private(&self) -> bool {
        self.private.is_some()
    }

    /// `SELECT VERSION()`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What it supports.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Connects as the bench.
    ///
    /// # Errors
    /// The server reports an error, or has ended.
    pub fn connect(&self) -> Result<Conn> {
        let mut conn = self
            .admin
            .connect()
            .with_context(|| format!("cannot connect to {}", self.admin.address))?;
        // Literals are quoted for this mode; waits between blocks may be long.
        conn.query_drop("SET SESSION sql_mode = '', wait_timeout = 86400")?;
        Ok(conn)
    }

    /// Restarts a private server with these additional options.
    ///
    /// # Errors
    /// It is not private, or does not start.
    pub fn restart(&mut self, options: &[String]) -> Result<()> {
        let server = self.private.as_mut().context("only a private server can be restarted")?;
        server.set_extra_options(options);
        server.restart()?;
        self.pid = server.pid();
        let mut conn = self.connect()?;
        self.note_threads(&mut conn)
    }

    /// Restarts a private server through another command, with these additional options.
    ///
    /// # Errors
    /// It is not private, or does not start.
    pub fn restart_through(&mut self, command: &[String], options: &[String]) -> Result<()> {
        let server = self.private.as_mut().context("only a private server can be restarted")?;
        server.set_prefix(command);
        self.restart(options)
    }

    /// Stops a private server and removes its files.
    ///
    /// # Errors
    /// It does not stop.
    pub fn stop(mut self) -> Result<()> {
        match self.private.take() {
            Some(mut server) => server.stop(),
            None => Ok(()),
        }
    }

    fn note_threads(&mut self, conn: &mut Conn) -> Result<()> {
        if let Some(pid) = self.pid {
            self.idle_threads = proc::read_process(pid)?.threads.into_keys().collect();
            for tid in self.dialect.serving_threads(conn)? {
                self.idle_threads.remove(&tid);
            }
        }
        Ok(())
    }

    /// What to read at the edges of a method's blocks.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn probe(&mut self, conn: &mut Conn, method: &Method) -> Result<Probe> {
        if self.pid.is_some() {
            // A thread that was idle before the load may serve it now.
            for tid in self.dialect.serving_threads(conn)? {
                self.idle_threads.remove(&tid);
            }
        }
        let data_directory = data_directory(conn)?;
        let mut log = Vec::new();
        for pattern in &method.log {
            // Relative paths are in the data directory.
            log.push(data_directory.join(fill_in(conn, pattern)?));
        }
        Ok(Probe {
            pid: self.pid,
            companion: None,
            rest: self.idle_threads.clone(),
            log,
            bytes_status: method.bytes_status.clone(),
            records_status: method.records_status.clone(),
        })
    }

    /// Why this server cannot use a method; `None` if it can.
    pub fn refuses(&self, method: &Method) -> Option<String> {
        let product = match self.dialect.product() {
            Product::MariaDb => "mariadb",
            Product::MySql => "mysql",
        };
        match method.versions.get(product) {
            Some(least) if !self.dialect.is_at_least(least) => {
                return Some(format!("it needs version {least}"));
            }
            None if !method.versions.is_empty() => {
                let other = if product == "mysql" { "MariaDB" } else { "MySQL" };
                return Some(format!("it is for {other}"));
            }
            _ => {}
        }
        if !self.is_private() && method.switch == Switch::Restart {
            return Some(match (&method.library, method.switch_installed) {
                (Some(library), Some(_)) => format!(
                    "{} is not installed, and not one to install under load; {} first",
                    library.file(),
                    library.install()
                ),
                _ => "it needs a restart, and your server is not restarted".to_owned(),
            });
        }
        if !self.is_private() && method.private_only {
            return Some("it would leave traces in your server".to_owned());
        }
        None
    }

    /// The server's line of the results.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn describe(&self, conn: &mut Conn) -> Result<ServerLine> {
        let names: Vec<String> = TOLD_VARIABLES.iter().map(|name| format!("'{name}'")).collect();
        let rows: Vec<(String, String)> = conn
            .query(format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(",")))?;
        Ok(ServerLine {
            version: self.version.clone(),
            private: self.is_private(),
            local: self.pid.is_some(),
            variables: rows.into_iter().collect(),
        })
    }
}

/// Checks a user's server before changing anything.
///
/// # Errors
/// It is too old, or a privilege is missing; the error names it.
pub fn check_privileges(conn: &mut Conn, dialect: &Dialect, methods: &[Method]) -> Result<()> {
    let least = match dialect.product() {
        Product::MariaDb => "10.4",
        Product::MySql => "8.0",
    };
    if !dialect.is_at_least(least) {
        bail!("the server is too old; the bench needs {least} or later");
    }
    let account: String = conn.query_first("SELECT CURRENT_USER()")?.context("no user")?;
    let tables: BTreeSet<_> =
        methods.iter().filter_map(|m| Some(m.library.as_ref()?.remembered_in())).collect();
    for (table, name) in tables {
        // EXPLAIN needs the privileges of the statement, and does not run it.
        for statement in [
            format!("EXPLAIN INSERT INTO {table} SELECT * FROM {table}"),
            format!("EXPLAIN DELETE FROM {table} WHERE {name} = ''"),
        ] {
            conn.query_drop(statement).with_context(|| {
                format!("{account} cannot install plugins; grant INSERT and DELETE on {table}")
            })?;
        }
    }
    let read_only: u8 = conn.query_first("SELECT @@GLOBAL.read_only = 1")?.unwrap_or(0);
    ensure!(read_only == 0, "the server is read-only, but the load writes to its own tables");
    Ok(())
}

/// The server's data directory.
pub(crate) fn data_directory(conn: &mut Conn) -> Result<PathBuf> {
    let path: Option<String> = conn.query_first("SELECT @@GLOBAL.datadir")?;
    path.map(PathBuf::from).context("the server has no data directory")
}

/// Replaces each `{variable}` in a path with its value.
pub(crate) fn fill_in(conn: &mut Conn, pattern: &str) -> Result<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return Ok(pattern.to_owned()) };
    let (name, after) =
        rest.split_once('}').with_context(|| format!("{pattern:?}: a brace without end"))?;
    let value: Option<(String, String)> =
        conn.query_first(format!("SHOW GLOBAL VARIABLES WHERE Variable_name = '{name}'"))?;
    let (_, value) = value.with_context(|| format!("the server has no variable {name}"))?;
    fill_in(conn, &format!("{before}{value}{after}"))
}

/// The process named by the server's pid file, or listening on its socket.
fn local_pid(login: &Login, conn: &mut Conn) -> Result<Option<u32>> {
    // Through a proxy, or in a container, it may be another process.
    let is_server = |pid: &u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        matches!(comm.trim(), "mariadbd" | "mysqld") && proc::read_process(*pid).is_ok()
    };
    let is_here = match &login.address {
        Address::Socket(_) => true,
        Address::Tcp(host, _) => matches!(&**host, "127.0.0.1" | "localhost" | "::1"),
    };
    if !is_here {
        return Ok(None);
    }
    let file: Option<String> = conn.query_first("SELECT @@GLOBAL.pid_file")?;
    let named = file.and_then(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    if named.as_ref().is_some_and(is_server) {
        return Ok(named);
    }
    let Address::Socket(path) = &login.address else { return Ok(None) };
    let stream = UnixStream::connect(path)
        .with_context(|| format!("cannot connect to {}", path.display()))?;
    let listener = rustix::net::sockopt::socket_peercred(&stream)?.pid;
    Ok(Some(listener.as_raw_nonzero().get() as u32).filter(is_server))
}
