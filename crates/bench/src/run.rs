//! A complete run: find the server, check it, measure, restore everything.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use crate::blocks::{Bench, Timing};
use crate::figures::{self, Pairs};
use crate::lines::{EndLine, Line, MethodLine, RunLine, Settings, SideBySideSettings, VERSION};
use crate::load::{LoadPlan, SCHEMA};
use crate::method::{Method, NONE, Switch};
use crate::notes;
use crate::output::Output;
use crate::plan::{self, Cell, Group};
use crate::priority;
use crate::proc;
use crate::sample::files_of;
use crate::sides;
use crate::stop::{Interrupted, Stop};
use crate::switch::Switcher;
use crate::target::{PrivateOptions, Target, check_privileges};
use crate::undo::{self, EarlierRun, Undo};
use crate::workload::Workload;
use tacho_sandbox::client::{Conn, Login, Queryable};
use tacho_sandbox::dialect::Dialect;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// A user's server; without it a private one is started.
    pub login: Option<Login>,
    /// The methods.
    pub methods: Vec<Method>,
    /// Methods that the user listed by name: if one of them cannot be used, that is an error, not a
    /// note.
    pub named: Vec<String>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Numbers of connections.
    pub threads: Vec<u32>,
    /// Rates of open loops, events/s; `None` is the closed loop.
    pub rates: Vec<Option<f64>>,
    /// Lengths and numbers.
    pub timing: Timing,
    /// Two private servers at the same time, instead of neighbouring blocks of one.
    pub side_by_side: Option<SideBySide>,
    /// The widest A/A interval with which figures are reported, as a share on either side of 1.
    pub noise_max: f64,
    /// Tables of the load, and rows in each.
    pub tables: (u32, u32),
    /// By the binary protocol, prepared.
    pub prepared: bool,
    /// Directory of the private server and the bench's own files.
    pub directory: PathBuf,
    /// For the private server.
    pub private: PrivateOptions,
    /// On a user's server: active recording may be switched off during the run.
    pub switch_off_audit: bool,
}

/// How two servers are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct SideBySide {
    /// The rounds of a method end when the interval of its processor time per query is within this
    /// share on either side.
    pub interval: f64,
    /// What is on at the other server: [`NONE`], or one of the methods.
    pub baseline: String,
}

impl Options {
    /// The methods as they are on a server.
    pub(crate) fn methods_for(&self, dialect: &Dialect) -> Vec<Method> {
        self.methods.iter().map(|method| method.clone().for_server(dialect)).collect()
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// A throughput or processor figure was withheld because the machine is too noisy.
    pub too_noisy: bool,
}

/// Runs the measurements.
///
/// # Errors
/// Something failed, or the run was interrupted ([`Interrupted`]). In any case the server has been
/// restored, or the error lists what could not be.
pub fn run(options: &Options, stop: &Stop, out: &mut Output) -> Result<Outcome> {
    let work = tempfile::Builder::new()
        .prefix("tacho-bench-")
        .tempdir_in(&options.directory)
        .with_context(|| format!("cannot create a directory in {}", options.directory.display()))?;
    if let Some(wanted) = &options.side_by_side {
        return sides::run(options, wanted, work.path(), stop, out);
    }
    let (target, missing, methods) = match &options.login {
        Some(login) => {
            let target = Target::own(login)?;
            let methods = options.methods_for(target.dialect());
            (target, BTreeMap::new(), methods)
        }
        None => {
            let dialect = Dialect::of_installation(&options.private.installation)?;
            let methods = options.methods_for(&dialect);
            out.progress("starting a private server …");
            let (target, missing) = Target::start_private(
                work.path(),
                &work.path().join("server"),
                &dialect,
                &methods,
                &options.private,
            )?;
            (target, missing, methods)
        }
    };
    let options = &Options { methods, ..options.clone() };
    stop.check()?;
    let mut conn = target.connect()?;
    lock(&mut conn)?;
    if !target.is_private() {
        check_privileges(&mut conn, target.dialect(), &options.methods)?;
        take_up_what_is_left(&mut conn, out)?;
    }
    let undo = Undo::begin(&mut conn)?;
    let switcher = Switcher::new(&mut conn, &target, undo, work.path())?;
    let mut bench = Bench::new(target, conn, switcher, stop.clone(), options.timing);
    priority::raise();
    let measured = measure(&mut bench, options, &missing, work.path(), out);
    out.end_progress();

    let restored = bench.put_back();
    if restored.is_ok() && !bench.target.is_private() {
        tell_leftovers(&bench.log_files, out);
    }
    // The server must be stopped even after an interrupt.
    let stopped = bench.target.stop();
    match (measured, restored) {
        (Ok(outcome), Ok(())) => stopped.map(|()| outcome),
        (Ok(_), Err(error)) => Err(error),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(other)) if options.login.is_some() => {
            Err(anyhow::anyhow!("{other:#}\nThis followed an earlier error: {error:#}"))
        }
        // A private server that died takes its state with it.
        (Err(error), Err(_)) => Err(error),
    }
}

/// Restores what a killed run has left on a user's server.
///
/// # Errors
/// Something could not be restored.
pub fn restore(login: &Login) -> Result<bool> {
    let target = Target::own(login)?;
    let mut conn = target.connect()?;
    lock(&mut conn)?;
    match undo::look(&mut conn)? {
        EarlierRun::Nothing => Ok(false),
        EarlierRun::Foreign => bail!(foreign()),
        EarlierRun::Ours => {
            Undo::left_behind(&mut conn)?.run(&mut conn)?;
            Ok(true)
        }
    }
}

/// Two concurrent benches would measure, and undo, each other. The server may not have noticed yet
/// that a previous one has ended.
pub(crate) fn lock(conn: &mut Conn) -> Result<()> {
    let got: Option<u8> = conn.query_first(format!("SELECT GET_LOCK('{SCHEMA}', 5)"))?;
    ensure!(got == Some(1), "another `tacho bench` is running on this server");
    Ok(())
}

fn foreign() -> String {
    format!("the server has a schema {SCHEMA} of another owner: it is not changed")
}

fn take_up_what_is_left(conn: &mut Conn, out: &mut Output) -> Result<()> {
    match undo::look(conn)? {
        EarlierRun::Nothing => {}
        EarlierRun::Foreign => bail!(foreign()),
        EarlierRun::Ours => {
            out.say("restoring what an earlier run changed …");
            Undo::left_behind(conn)?.run(conn)?;
        }
    }
    Ok(())
}

fn measure(
    bench: &mut Bench,
    options: &Options,
    missing: &BTreeMap<String, String>,
    work: &Path,
    out: &mut Output,
) -> Result<Outcome> {
    let began = Instant::now();
    let started = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let (methods, notes) = usable(bench, options, missing, out)?;
    ensure!(!methods.is_empty(), "no method can be used on this server:\n{}", notes.join("\n"));
    let groups = plan::groups(&methods);
    let cells = plan::cells(&options.workloads, &options.threads, &options.rates);
    describe(bench, options, Method::none(NONE), &groups, notes, started, out)?;
    fill(bench, options, &cells, work, out)?;
    let blocks = cells.len() as u32
        * options.timing.pairs
        * 2
        * groups.iter().map(|group| group.methods.len() as u32).sum::<u32>();
    bench.begin(began, blocks);
    out.say(&format!(
        "{blocks} blocks of {} s: {}{}",
        options.timing.block.as_secs_f64(),
        spoken(estimate(&groups, cells.len(), &options.timing)),
        match options.timing.deadline {
            Some(deadline) => format!(", at most about {}", spoken(deadline)),
            None => String::new(),
        }
    ));

    let mut too_noisy = false;
    let mut notes = Vec::new();
    for cell in &cells {
        let load = load_of(cell, bench, options);
        for group in &groups {
            let pairs = bench.run_group(cell, group, &load, work, out)?;
            too_noisy |= report(cell, group, &pairs, options, &mut notes, out)?;
        }
    }
    end(began, too_noisy, notes, out)
}

/// Writes the results of a group under a load. Returns whether the machine was too noisy.
pub(crate) fn report(
    cell: &Cell,
    group: &Group,
    pairs: &[Pairs],
    options: &Options,
    notes: &mut Vec<String>,
    out: &mut Output,
) -> Result<bool> {
    let mut too_noisy = false;
    for (method, of_method) in group.methods.iter().zip(pairs) {
        let method = line_of(method);
        let result = figures::result(cell.line(), &method, of_method, &pairs[0], options.noise_max);
        too_noisy |= figures::is_withheld(&result);
        notes.extend(notes::of(&result, &settings(options)));
        out.line(Line::Result(Box::new(result)))?;
    }
    Ok(too_noisy)
}

/// Ends a run that is complete.
pub(crate) fn end(
    began: Instant,
    too_noisy: bool,
    notes: Vec<String>,
    out: &mut Output,
) -> Result<Outcome> {
    for note in &notes {
        out.say(&format!("note: {note}"));
    }
    out.line(Line::End(EndLine { seconds: began.elapsed().as_secs_f64(), too_noisy, notes }))?;
    Ok(Outcome { too_noisy })
}

/// Writes what is measured, and where. `started`: seconds since 1970.
pub(crate) fn describe(
    bench: &mut Bench,
    options: &Options,
    baseline: Method,
    groups: &[plan::Group],
    notes: Vec<String>,
    started: u64,
    out: &mut Output,
) -> Result<()> {
    let mut methods = vec![baseline];
    methods.extend(groups.iter().flat_map(|group| group.methods.clone()));
    let run = RunLine {
        v: VERSION,
        tacho: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        server: bench.target.describe(&mut bench.conn)?,
        machine: proc::machine(),
        settings: settings(options),
        methods: methods.iter().map(line_of).collect(),
        notes: notes.clone(),
    };
    out.line(Line::Run(Box::new(run)))?;
    for note in notes {
        out.say(&format!("note: {note}"));
    }
    Ok(())
}

/// The load of a cell.
pub(crate) fn load_of(cell: &Cell, bench: &Bench, options: &Options) -> LoadPlan {
    LoadPlan {
        login: bench.target.load.clone(),
        workload: cell.workload.clone(),
        threads: cell.threads,
        rate: cell.rate,
        tables: options.tables,
        prepared: options.prepared,
    }
}

/// Fills the tables of sysbench, if a workload of it is measured.
pub(crate) fn fill(
    bench: &Bench,
    options: &Options,
    cells: &[Cell],
    work: &Path,
    out: &mut Output,
) -> Result<()> {
    let Some(first) = cells.iter().find(|cell| cell.workload.is_sysbench()) else { return Ok(()) };
    out.progress("filling the tables …");
    load_of(first, bench, options).fill(work)
}

/// The methods that this server supports, and the reasons for the others. Each is switched on and
/// off once, so that errors show before an hour of measuring.
pub(crate) fn usable(
    bench: &mut Bench,
    options: &Options,
    missing: &BTreeMap<String, String>,
    out: &mut Output,
) -> Result<(Vec<Method>, Vec<String>)> {
    let mut methods = Vec::new();
    let mut notes = Vec::new();
    for method in &options.methods {
        bench.stop.check()?;
        let mut method = method.clone();
        if let Some(switch) = method.switch_installed
            && bench.switcher.was_installed(&method)
        {
            method.switch = switch;
        }
        let method = &method;
        out.progress(&format!("trying {} …", method.name));
        let refused = bench.target.refuses(method).or_else(|| missing.get(&method.name).cloned());
        let failed = match refused {
            Some(reason) => Some(reason),
            None => match bench.rehearse(method, options.switch_off_audit) {
                Ok(()) => None,
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => Some(format!("{error:#}")),
            },
        };
        if method.library.is_some() && method.switch == Switch::Restart {
            // The attempt may have left something until the server ends that affects the next
            // method: MySQL 8.0 does not reinstall a plugin that a session still holds, and our
            // session does.
            bench.start_afresh()?;
        }
        match failed {
            None => {
                if bench.switcher.was_installed(method) {
                    notes.push(format!(
                        "{}: its plugin was installed before, so the cost of the server's \
                         interface is in \"none\" as well",
                        method.name
                    ));
                }
                methods.push(method.clone());
            }
            Some(reason) => {
                let note = format!("{} left out: {reason}", method.name);
                ensure!(!options.named.contains(&method.name), "{}: {reason}", method.name);
                notes.push(note);
            }
        }
    }
    Ok((methods, notes))
}

/// For the first line.
pub(crate) fn settings(options: &Options) -> Settings {
    let timing = &options.timing;
    Settings {
        block_s: timing.block.as_secs_f64(),
        guard_s: timing.guard.as_secs_f64(),
        warm_up_s: timing.warm_up.as_secs_f64(),
        pairs: timing.pairs,
        noise_max: options.noise_max,
        tables: options.tables.0,
        rows: options.tables.1,
        prepared: options.prepared,
        side_by_side: options.side_by_side.as_ref().map(|wanted| SideBySideSettings {
            interval: wanted.interval,
            max_time_s: timing.deadline.map(|deadline| deadline.as_secs_f64()),
            baseline: wanted.baseline.clone(),
        }),
    }
}

/// For the first line.
pub(crate) fn line_of(method: &Method) -> MethodLine {
    MethodLine { name: method.name.clone(), title: method.title.clone(), switch: method.switch }
}

/// A rough estimate: the cost of switching depends on the machine.
pub(crate) fn estimate(groups: &[Group], cells: usize, timing: &Timing) -> Duration {
    let of_group = |group: &Group| {
        let change = match group.switch {
            Switch::Live => timing.guard + Duration::from_millis(150),
            Switch::Reconnect => timing.guard + Duration::from_millis(300),
            Switch::Restart => timing.warm_up + Duration::from_secs(3),
        };
        (timing.block + change) * 2 * timing.pairs * group.methods.len() as u32
    };
    groups.iter().map(of_group).sum::<Duration>() * cells as u32
}

pub(crate) fn spoken(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

/// Removes log files with our own names, and reports the others.
fn tell_leftovers(patterns: &[PathBuf], out: &mut Output) {
    for path in patterns.iter().flat_map(|pattern| files_of(pattern)) {
        let ours = path.file_name().is_some_and(|name| name.to_string_lossy().contains(SCHEMA));
        if !ours || std::fs::remove_file(&path).is_err() {
            out.say(&format!("left behind: {}", path.display()));
        }
    }
}
