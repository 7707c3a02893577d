//! Instructions of a point select, counted by callgrind: the load of the machine has no influence.
//!
//! A private server runs under callgrind. One connection sends a short and a long batch of the
//! same point select by the text protocol; the difference between the two, divided by the
//! difference in statements, is the cost of one: start-up, connecting and filling of caches
//! cancel out.
//!
//! Two traps:
//!
//! * The client runs on the processor of the server with batch priority. Otherwise the next
//!   statement sometimes arrives before the server has gone to sleep, which changes the path
//!   through the network code by about 300 instructions, at random.
//! * Under callgrind a statement takes 50 times as long, but an interval of 100 ms does not. So 25
//!   statements share the fixed cost of a round of tacho's writer, instead of more than 1,000. The
//!   variant `tacho:paced` compensates for that.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use crate::lines::{EndLine, InstructionsLine, Line, RunLine, VERSION};
use crate::load::SCHEMA;
use crate::method::{Method, NONE};
use crate::output::Output;
use crate::proc;
use crate::run::{self, Options, Outcome};
use crate::stop::Stop;
use crate::switch::Switcher;
use crate::target::Target;
use crate::undo::Undo;
use tacho_sandbox::client::{Address, Conn, Queryable};
use tacho_sandbox::dialect::Dialect;
use tacho_sandbox::installation::{Installation, Product};

/// Statements of the batches: to fill the caches, the short and the long one.
const BATCHES: [u64; 3] = [300, 1000, 3000];

/// Time for the writer to write the rest of a batch; more than the interval of `tacho:paced`.
const WRITER_TIME: Duration = Duration::from_secs(8);

/// How long callgrind may take to write its files.
const DUMP_DEADLINE: Duration = Duration::from_secs(300);

/// The set of files is complete if it has not changed for this long.
const DUMP_STEADY: Duration = Duration::from_secs(2);

/// Avoids obstacles to counting: memory that the emulator does not have, and threads with other
/// work.
const SERVER_OPTIONS: [&str; 2] = ["innodb-use-native-aio=0", "performance-schema=OFF"];
const MARIADB_OPTIONS: [&str; 1] = ["innodb-buffer-pool-size-max=256M"];

/// Functions in callgrind's file of a thread that serves a connection (both servers have the
/// symbol), and of tacho's writer.
const QUERY_MARK: &str = "do_command(THD*";
const WRITER_MARK: &str = "tacho_recorder";

/// Counts, for [`NONE`] and all methods.
///
/// # Errors
/// valgrind or the server is not installed, a method cannot be switched on, or the run was
/// interrupted.
pub fn run(options: &Options, stop: &Stop, out: &mut Output) -> Result<Outcome> {
    let began = Instant::now();
    let work = tempfile::Builder::new()
        .prefix("tacho-bench-")
        .tempdir_in(&options.directory)
        .with_context(|| format!("cannot create a directory in {}", options.directory.display()))?;
    for program in ["valgrind", "callgrind_control", "taskset", "chrt"] {
        Installation::system().program(program)?;
    }
    let installation = &options.private.installation;
    let dialect = Dialect::of_installation(installation)?;
    let client = installation.program(dialect.product().client_name())?;
    let mut private = options.private.clone();
    private.options = SERVER_OPTIONS.map(str::to_owned).into();
    if dialect.product() == Product::MariaDb {
        private.options.extend(MARIADB_OPTIONS.map(str::to_owned));
    }
    private.options.extend(options.private.options.clone());
    out.progress("starting a private server …");
    let wanted = options.methods_for(&dialect);
    let directory = work.path().join("server");
    let (mut target, missing) =
        Target::start_private(work.path(), &directory, &dialect, &wanted, &private)?;
    let mut notes = Vec::new();
    let mut methods = vec![Method::none(NONE)];
    for method in &wanted {
        match target.refuses(method).or_else(|| missing.get(&method.name).cloned()) {
            None => methods.push(method.clone()),
            Some(reason) if options.named.contains(&method.name) => {
                bail!("{}: {reason}", method.name)
            }
            Some(reason) => notes.push(format!("{} left out: {reason}", method.name)),
        }
    }
    {
        let mut conn = target.connect()?;
        fill(&mut conn, dialect.product())?;
        out.line(Line::Run(Box::new(RunLine {
            v: VERSION,
            tacho: env!("CARGO_PKG_VERSION").to_owned(),
            started: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
            server: target.describe(&mut conn)?,
            machine: proc::machine(),
            settings: run::settings(options),
            methods: methods.iter().map(run::line_of).collect(),
            notes,
        })))?;
    }
    for method in &methods {
        stop.check()?;
        out.progress(&format!("counting {} …", method.name));
        let line = count(&mut target, method, &client, work.path(), stop)
            .with_context(|| format!("cannot count {}", method.name))?;
        out.say(&format!("{}: {} instructions", method.name, line.process));
        out.line(Line::Instructions(line))?;
    }
    target.stop()?;
    let seconds = began.elapsed().as_secs_f64();
    out.line(Line::End(EndLine { seconds, too_noisy: false, notes: Vec::new() }))?;
    Ok(Outcome { too_noisy: false })
}

/// One table of 10,000 rows, like sysbench's.
fn fill(conn: &mut Conn, product: Product) -> Result<()> {
    Undo::begin(conn)?;
    let recursion = match product {
        Product::MariaDb => "max_recursive_iterations",
        Product::MySql => "cte_max_recursion_depth",
    };
    for statement in [
        // MySQL needs one for the rows' own source.
        format!("USE {SCHEMA}"),
        format!(
            "CREATE TABLE {SCHEMA}.sbtest1 (id INT PRIMARY KEY, k INT NOT NULL, \
             c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, KEY k_1 (k)) ENGINE=InnoDB"
        ),
        format!("SET SESSION {recursion} = 20000"),
        format!(
            "INSERT INTO {SCHEMA}.sbtest1 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL \
             SELECT i + 1 FROM n WHERE i < 10000) SELECT i, i % 5000, \
             REPEAT(LEFT(SHA2(i, 256), 32), 3), LEFT(SHA2(i, 256), 32) FROM n"
        ),
    ] {
        conn.query_drop(statement)?;
    }
    Ok(())
}

/// Instructions since the last dump.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    query: u64,
    writer: u64,
    process: u64,
}

fn count(
    target: &mut Target,
    method: &Method,
    client: &Path,
    work: &Path,
    stop: &Stop,
) -> Result<InstructionsLine> {
    let cpu = last_cpu();
    let base = work.join("callgrind");
    let words = [
        "taskset",
        "--cpu-list",
        &cpu,
        "valgrind",
        "--tool=callgrind",
        "--separate-threads=yes",
        &format!("--callgrind-out-file={}.%p", base.display()),
    ];
    target.restart_through(&words.map(str::to_owned), &method.options)?;
    let pid = target.pid.context("no process")?;
    let mut conn = target.connect()?;
    let mut switcher = Switcher::new(&mut conn, target, Undo::default(), work)?;
    switcher.prepare(&mut conn, method)?;
    switcher.set_up(&mut conn, method)?;
    switcher.on(method, stop)?;

    let mut batches = Vec::new();
    for (index, size) in BATCHES.into_iter().enumerate() {
        stop.check()?;
        send(target, client, &cpu, size)?;
        stop.sleep(WRITER_TIME)?;
        batches.push(dump(&base, pid, index + 1, stop)?);
    }
    switcher.off(&mut conn, method, stop)?;
    drop(conn);
    // The next server must not find the changes of this one.
    target.restart_through(&[], &[])?;

    let (short, long) = (batches[1], batches[2]);
    let per_statement =
        |of: fn(&Counted) -> u64| of(&long).saturating_sub(of(&short)) / (BATCHES[2] - BATCHES[1]);
    Ok(InstructionsLine {
        method: method.name.clone(),
        query: per_statement(|counted| counted.query),
        writer: per_statement(|counted| counted.writer),
        process: per_statement(|counted| counted.process),
    })
}

/// Interrupts are handled by the first processors.
fn last_cpu() -> String {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    (count - 1).to_string()
}

fn send(target: &Target, program: &Path, cpu: &str, statements: u64) -> Result<()> {
    let Address::Socket(socket) = &target.admin.address else { bail!("not by socket") };
    let mut client = Command::new("taskset")
        .args(["--cpu-list", cpu, "chrt", "--batch", "0", "nice", "-n", "19"])
        .arg(program)
        .args(["--no-defaults", "--batch", "--skip-column-names"])
        .arg(format!("--database={SCHEMA}"))
        .arg(format!("--user={}", target.admin.user))
        .arg(format!("--socket={}", socket.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let text = "SELECT c FROM sbtest1 WHERE id=4711;\n".repeat(statements as usize);
    client.stdin.take().context("no pipe")?.write_all(text.as_bytes())?;
    let status = client.wait()?;
    ensure!(status.success(), "{}: {status}", program.display());
    Ok(())
}

/// Makes callgrind write its counts since the last time, a file for each thread.
fn dump(base: &Path, pid: u32, number: usize, stop: &Stop) -> Result<Counted> {
    let asked = Command::new("callgrind_control")
        .args(["--dump", &pid.to_string()])
        .output()
        .context("cannot run callgrind_control")?;
    ensure!(
        asked.status.success(),
        "callgrind_control: {}",
        String::from_utf8_lossy(&asked.stderr)
    );
    let mut pattern = base.as_os_str().to_owned();
    pattern.push(format!(".{pid}.{number}-*"));
    let pattern = PathBuf::from(pattern);
    let deadline = Instant::now() + DUMP_DEADLINE;
    let mut files = Vec::new();
    let mut since = Instant::now();
    while files.is_empty() || since.elapsed() < DUMP_STEADY {
        ensure!(Instant::now() < deadline, "callgrind did not write {} in time", pattern.display());
        stop.sleep(Duration::from_millis(100))?;
        let mut found = Vec::new();
        for path in crate::sample::files_of(&pattern) {
            found.push((fs::metadata(&path)?.len(), path));
        }
        found.sort();
        if found != files {
            files = found;
            since = Instant::now();
        }
    }
    let mut counted = Counted::default();
    for (_, path) in files {
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = String::from_utf8_lossy(&text);
        let instructions = total(&text);
        counted.process += instructions;
        if text.contains(QUERY_MARK) {
            counted.query += instructions;
        }
        if text.contains(WRITER_MARK) {
            counted.writer += instructions;
        }
    }
    Ok(counted)
}

/// Instructions in one of callgrind's files; an idle thread has none.
fn total(text: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_sum_of_a_file() {
        assert_eq!(total("events: Ir\nsummary: 1234\n\nfn=(1) main\n"), 1234);
        assert_eq!(total("fn=(1)\n1 2\n\ntotals: 77 1\n"), 77);
        assert_eq!(total("events: Ir\n"), 0);
    }
}
