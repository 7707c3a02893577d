//! The worker process: opens DuckDB, locks it down, and runs one query at a time.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};

use parquet::errors::ParquetError;

use crate::check::{self, Refusal};
use crate::engine::{Connection, Database, EngineError, Rows, SELECT};
use crate::frame::{self, ColumnInfo, End, Failure, FailureKind, Setup, from_worker, to_worker};
use crate::literal;
use crate::pool::Request;
use crate::prescan::{Cancelled, FilePart, Prescanner};
use crate::rows;
use crate::value::Type;

/// The priority: below landing, above merges (`crates/store/src/merge.rs`).
const NICE: i32 = 5;
/// Rows are sent when there are so many bytes of them.
const ROWS_BYTES: usize = 64 << 10;

/// Runs the worker: frames from stdin, frames to stdout. When the hub has closed the pipe or is
/// dead, the process ends at once, also in the middle of a query.
///
/// # Errors
/// If the pipes do not work.
pub fn run_worker() -> io::Result<()> {
    let mut input = BufReader::new(io::stdin().lock());
    let mut output = take_stdout()?;
    confine()?;
    keep_freed_memory();
    let Some((to_worker::SETUP, setup)) = frame::read(&mut input)? else { return Ok(()) };
    let setup: Setup = serde_json::from_slice(&setup)?;
    let connection = match open(&setup) {
        Ok((database, connection)) => {
            frame::write(&mut output, from_worker::READY, database.version().as_bytes())?;
            // It lives as long as the process.
            std::mem::forget(database);
            Arc::new(connection)
        }
        Err(error) => return fail(&mut output, FailureKind::Setup, &error.0),
    };
    let (queries, receiver) = mpsc::channel();
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let prescanner = Prescanner::new(setup.threads as usize, Arc::clone(&is_cancelled));
    let mut runner = Runner { connection: Arc::clone(&connection), prescanner, output };
    std::thread::Builder::new()
        .name("query".to_owned())
        .spawn(move || runner.run_queries(&receiver))?;
    read_frames(&mut input, &connection, &is_cancelled, |query| queries.send(query).is_ok())?;
    // Without destructors: threads of DuckDB may run.
    // SAFETY: a plain system call.
    unsafe { libc::_exit(0) }
}

/// Returns when the hub has closed the pipe.
fn read_frames(
    input: &mut impl Read,
    connection: &Connection,
    is_cancelled: &AtomicBool,
    mut take: impl FnMut(Request) -> bool,
) -> io::Result<()> {
    while let Some((kind, content)) = frame::read(input)? {
        match kind {
            to_worker::QUERY => {
                // The one before has ended, even if it was cancelled too late.
                is_cancelled.store(false, Ordering::Relaxed);
                if !take(serde_json::from_slice(&content)?) {
                    break;
                }
            }
            to_worker::CANCEL => {
                is_cancelled.store(true, Ordering::Relaxed);
                connection.interrupt();
            }
            _ => break,
        }
    }
    Ok(())
}

/// The pipe to the hub; what libraries print goes to stderr.
fn take_stdout() -> io::Result<fs::File> {
    // SAFETY: plain system calls on descriptors of this process.
    let copy = unsafe {
        let copy = libc::fcntl(1, libc::F_DUPFD_CLOEXEC, 3);
        if copy < 0 || libc::dup2(2, 1) < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(copy)
    };
    Ok(copy.into())
}

/// The process dies before the hub if memory runs out. (The end of its pipe shows that the hub has
/// died: `PR_SET_PDEATHSIG` would kill the worker when the *thread* ends that has started it.)
fn confine() -> io::Result<()> {
    // SAFETY: plain system calls.
    let failed = unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::setrlimit(libc::RLIMIT_CORE, &none) != 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    // Queries yield to ingest, and merges yield to queries. Where that is forbidden, they compete.
    // SAFETY: a plain system call.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

/// The pages of a scan have 1 MiB. By default, each is new memory of the kernel, and more than half
/// of the time of a scan was spent on its page faults.
fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: plain calls, before there are threads. If they fail, the default stays.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 8 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 32 << 20);
    }
}

fn open(setup: &Setup) -> Result<(Database, Connection), EngineError> {
    let path = |path: &Path| {
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| EngineError(format!("the path {} is not UTF-8", path.display())))
    };
    let text = |number: u64| number.to_string();
    let settings = [
        ("threads", text(setup.threads.into())),
        ("memory_limit", format!("{}B", setup.memory_bytes)),
        ("temp_directory", path(&setup.temp_dir)?),
        ("max_temp_directory_size", format!("{}B", setup.temp_bytes)),
        ("autoinstall_known_extensions", "false".to_owned()),
        ("autoload_known_extensions", "false".to_owned()),
        ("allow_community_extensions", "false".to_owned()),
        ("allow_persistent_secrets", "false".to_owned()),
    ];
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, &**value)).collect();
    let database = Database::open(&setup.library, &settings)?;
    let connection = database.connect()?;
    connection.register_time_histogram()?;
    let allowed = literal(&format!("{}/", path(&setup.data_dir)?));
    for sql in [
        "SET TimeZone = 'UTC'".to_owned(),
        // Segments are never changed.
        "SET parquet_metadata_cache = true".to_owned(),
        // Columns in large reads, and no second copy of what the kernel has in its cache. Both are
        // refused with the settings above: then every query fails.
        "SET prefetch_all_parquet_files = true".to_owned(),
        "SET enable_external_file_cache = false".to_owned(),
        // Rows in an order, and few of them: first which ones, then their columns. The default is
        // 50 rows.
        "SET late_materialization_max_rows = 2000".to_owned(),
        format!("SET allowed_directories = [{allowed}]"),
        "SET enable_external_access = false".to_owned(),
        "SET lock_configuration = true".to_owned(),
    ] {
        connection.execute(&sql)?;
    }
    limit_memory(setup.memory_bytes)
        .map_err(|error| EngineError(format!("cannot limit memory: {error}")))?;
    Ok((database, connection))
}

/// DuckDB's own limit does not count everything: beyond twice of it, the kernel refuses.
fn limit_memory(memory_bytes: u64) -> io::Result<()> {
    const FIXED_BYTES: u64 = 1 << 30;
    let bytes = memory_bytes.saturating_mul(2).saturating_add(FIXED_BYTES);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a plain system call.
    match unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn fail(output: &mut impl Write, kind: FailureKind, message: &str) -> io::Result<()> {
    let failure = Failure { kind, message: message.to_owned() };
    frame::write_json(output, from_worker::FAILURE, &failure)
}

/// Runs the queries, one after the other.
struct Runner {
    connection: Arc<Connection>,
    prescanner: Prescanner,
    output: fs::File,
}

impl Runner {
    fn run_queries(&mut self, queries: &Receiver<Request>) {
        for query in queries {
            let sent = match self.run(&query) {
                Ok(end) => frame::write_json(&mut self.output, from_worker::END, &end),
                Err(Stop::Engine(error)) => self.fail(kind_of(&error.0), &error.0),
                Err(Stop::Refused(Refusal::Syntax(message))) => {
                    self.fail(FailureKind::Sql, &message)
                }
                Err(Stop::Refused(refusal)) => {
                    self.fail(FailureKind::Forbidden, &refusal.to_string())
                }
                Err(Stop::Cancelled) => self.fail(FailureKind::Cancelled, "cancelled"),
                Err(Stop::Pipe(error)) => Err(error),
            };
            if sent.is_err() {
                // The hub is gone: the other thread sees the same.
                return;
            }
        }
    }

    fn fail(&mut self, kind: FailureKind, message: &str) -> io::Result<()> {
        fail(&mut self.output, kind, message)
    }

    fn run(&mut self, query: &Request) -> Result<End, Stop> {
        if !query.places.is_empty() {
            let sent = rows::send(&query.places, query.max_bytes, &mut self.output);
            return Ok(sent.map_err(Stop::Pipe)??);
        }
        let connection = &*self.connection;
        let whole = |file: &PathBuf| FilePart { file: file.clone(), rows: None };
        let parts = match &query.prescan {
            Some(scan) => self.prescanner.narrow(scan, &query.files)?,
            None => query.files.iter().map(whole).collect(),
        };
        create_views(connection, query, &parts)?;
        if query.is_users {
            let tree = format!("SELECT json_serialize_sql({})", literal(&query.sql));
            let tree = connection.text(&tree)?.unwrap_or_default();
            let mut views = vec!["records"];
            views.extend(query.views.iter().map(|(name, _)| &**name));
            check::check(&tree, &views).map_err(Stop::Refused)?;
        }
        let statement = connection.prepare(&query.sql)?;
        if statement.kind() != SELECT {
            let kind = "a statement that is not a SELECT".to_owned();
            return Err(Stop::Refused(Refusal::Kind(kind)));
        }
        let types = statement.types();
        let rows = if types.contains(&Type::Other) {
            connection.prepare(&with_texts(&query.sql, &types))?.execute()?
        } else {
            statement.execute()?
        };
        send(rows, query, &mut self.output)
    }
}

/// DuckDB's errors begin with their kind.
fn kind_of(message: &str) -> FailureKind {
    let begins = |prefix: &str| message.starts_with(prefix);
    if begins("INTERRUPT") || message.contains("Interrupted!") {
        FailureKind::Cancelled
    } else if begins("Out of Memory") || message.contains("max_temp_directory_size") {
        FailureKind::Memory
    } else if begins("Permission Error") {
        FailureKind::Forbidden
    } else {
        FailureKind::Sql
    }
}

/// Why a query ended early.
enum Stop {
    Engine(EngineError),
    Refused(Refusal),
    Cancelled,
    Pipe(io::Error),
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<ParquetError> for Stop {
    fn from(error: ParquetError) -> Self {
        Self::Engine(EngineError(error.to_string()))
    }
}

impl From<Cancelled> for Stop {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

fn create_views(
    connection: &Connection,
    query: &Request,
    parts: &[FilePart],
) -> Result<(), EngineError> {
    if !query.files.is_empty() {
        create_records(connection, query, parts)?;
    }
    for (name, select) in &query.views {
        connection.execute(&format!("CREATE OR REPLACE TEMP VIEW {name} AS {select}"))?;
    }
    Ok(())
}

fn create_records(
    connection: &Connection,
    query: &Request,
    parts: &[FilePart],
) -> Result<(), EngineError> {
    let name = |file: &Path| literal(&file.to_string_lossy());
    let all = match query.has_places {
        true => "*, filename AS segment_file, file_row_number AS segment_row",
        false => "*",
    };
    let whole = parts.iter().filter(|part| part.rows.is_none());
    let whole: Vec<String> = whole.map(|part| name(&part.file)).collect();
    let mut tables = Vec::new();
    if !whole.is_empty() {
        tables.push(format!("SELECT {all} FROM read_parquet([{}])", whole.join(",")));
    }
    for FilePart { file, rows } in parts {
        if let Some(rows) = rows {
            // DuckDB knows which row groups have them.
            tables.push(format!(
                "SELECT {all} FROM read_parquet({}) WHERE file_row_number >= {} \
                 AND file_row_number < {}",
                name(file),
                rows.start,
                rows.end
            ));
        }
    }
    let table = format!("({})", tables.join(" UNION ALL "));
    let columns = query.columns.as_deref().unwrap_or("*");
    let filter = query.filter.as_deref().unwrap_or("true");
    connection.execute(&format!(
        "CREATE OR REPLACE TEMP VIEW records AS SELECT {columns} FROM {table} WHERE {filter}"
    ))
}

/// The same query, with values of other types as texts.
fn with_texts(sql: &str, types: &[Type]) -> String {
    let columns: Vec<String> = types
        .iter()
        .enumerate()
        .map(|(index, kind)| match kind {
            Type::Other => format!("CAST(#{} AS VARCHAR)", index + 1),
            _ => format!("#{}", index + 1),
        })
        .collect();
    let sql = sql.trim_end().trim_end_matches(';');
    // A newline: the text may end with a comment.
    format!("SELECT {} FROM ({sql}\n) AS q", columns.join(", "))
}

fn send(mut rows: Rows, query: &Request, output: &mut fs::File) -> Result<End, Stop> {
    let columns: Vec<ColumnInfo> = rows
        .names
        .iter()
        .zip(&rows.types)
        .map(|(name, kind)| ColumnInfo { name: name.clone(), kind: kind.name().to_owned() })
        .collect();
    frame::write_json(output, from_worker::COLUMNS, &columns).map_err(Stop::Pipe)?;
    let mut buffer = Vec::new();
    let (mut sent_rows, mut sent_bytes) = (0, 0);
    let mut is_truncated = false;
    'chunks: while let Some(chunk) = rows.next_chunk()? {
        let vectors: Vec<_> = (0..columns.len()).map(|at| chunk.vector(&rows, at)).collect();
        for row in 0..chunk.len() {
            let begin = buffer.len();
            for (index, vector) in vectors.iter().enumerate() {
                buffer.push(if index == 0 { b'[' } else { b',' });
                vector.write_json(&mut buffer, row, query.times);
            }
            buffer.extend_from_slice(b"]\n");
            sent_rows += 1;
            sent_bytes += (buffer.len() - begin) as u64;
            if sent_rows > query.max_rows || sent_bytes > query.max_bytes {
                buffer.truncate(begin);
                is_truncated = true;
                break 'chunks;
            }
            if buffer.len() >= ROWS_BYTES {
                frame::write(output, from_worker::ROWS, &buffer).map_err(Stop::Pipe)?;
                buffer.clear();
            }
        }
    }
    if !buffer.is_empty() {
        frame::write(output, from_worker::ROWS, &buffer).map_err(Stop::Pipe)?;
    }
    Ok(End { is_truncated })
}
