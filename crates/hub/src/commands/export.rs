//! `tacho-hub export`

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use tacho_chain::verify::LogState;
use tacho_evidence::check::{self, Options};
use tacho_evidence::manifest::ByPart;
use tacho_progress::Progress;
use tacho_query::{Cancel, Pool, Settings};
use tacho_ship::words::megabytes;
use tacho_store::Reader;

use crate::api::filter::parse_time;
use crate::audit::Entry;
use crate::cli::ExportArgs;
use crate::clock::now_us;
use crate::data::{DataDirectory, make_directory};
use crate::database::Database;
use crate::export::{Question, Sources, export};
use crate::hub_key;
use crate::index::query_settings;
use crate::index::view::View;
use crate::new_file::NewFile;
use crate::roles::Scope;

/// How long a query may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3600);

/// Writes a bundle, and checks what it has written.
///
/// # Errors
/// The search is wrong or finds too much, or something cannot be read or written.
pub fn run(args: &ExportArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let data = DataDirectory::existing(&args.data.directory)?;
    let question = question(args)?;
    let file = NewFile::create(&args.output)?;
    let database = Database::open(&data.database())?;
    Entry::asked_by_command("export", "Export", &args.q)
        .store(&database)
        .context("cannot record the export, so it is not made")?;
    let key = hub_key::open(&data)?;
    let snapshot = Reader::snapshot(&data.store())?;
    let settings = Settings { workers: 1, waiting: 1, ..query_settings(&data)? };
    make_directory(&settings.temp_dir)?;
    let pool = Pool::new(settings);
    let sources =
        Sources { data: &data, database: &database, pool: &pool, snapshot: &snapshot, key: &key };
    let mut progress = Progress::new(true);
    let made = export(&sources, &question, file.file(), &Cancel::default(), &mut |bytes| {
        progress.show(|| format!("{} written", megabytes(bytes, None)));
        true
    })?;
    let options = Options { keys: Vec::new(), hub_key: Some(key.root()) };
    let mut checked = 0;
    let report = check::check(file.file(), &options, &mut |bytes| {
        checked += bytes;
        progress.show(|| format!("{} checked", megabytes(checked, None)));
    });
    progress.end();
    let report = report.context("cannot read the bundle")?;
    file.finish()?;
    writeln!(
        out,
        "{}: {} records, {} proven; {} bytes",
        args.output.display(),
        report.records(),
        report.proven(),
        made.bytes
    )?;
    if report.state() != LogState::Ok {
        writeln!(out, "`tacho verify` will say: {}", report.state().word())?;
    }
    writeln!(out, "signed with the key {}", key.root())?;
    Ok(())
}

fn question(args: &ExportArgs) -> anyhow::Result<Question> {
    let now = now_us();
    let time = |name: &str, text: &Option<String>| {
        let Some(text) = text else { return Ok(None) };
        let time = parse_time(text, now);
        let form = "use RFC 3339, now, or a time before now such as -15m";
        time.map(Some).with_context(|| format!("--{name}: {text:?} is not a time; {form}"))
    };
    let search = tacho_search::parse(&args.q).map_err(|error| {
        anyhow::anyhow!("--q: {} (at character {})", error.message, error.position + 1)
    })?;
    // The dictionary of statements belongs to the hub that runs.
    anyhow::ensure!(
        !search.needs_look_up(),
        "digest_text works in the web UI and the API only: use digest:… or a text here"
    );
    let user = rustix::process::getuid().as_raw();
    Ok(Question {
        q: args.q.clone(),
        search,
        from_us: time("from", &args.from)?,
        to_us: time("to", &args.to)?,
        servers: args.servers.clone(),
        scope: Scope::All,
        view: View { columns: None, filter: None },
        by: ByPart { name: format!("user id {user}"), via: "command".to_owned() },
        records_max: args.max_records,
        bytes_max: args.max_mib.saturating_mul(1 << 20),
        timeout: QUERY_TIMEOUT,
    })
}
