//! `tacho convert` and `tacho slowlog`: the log in the formats that other programs read.
//!
//! Files are found, read and followed as by `tacho tail`, from their beginning. A line becomes a
//! record without loss, `running` lines are joined with their ends, and `tacho_format` writes what
//! comes out.

mod converter;
mod output;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Zoned;
use tacho_format::{Body, Format, Formatter, host_name};
use tacho_logdir::read::files::Input;
use tacho_logdir::read::{self, Lines, ReadError, Request, Window};
use tacho_record::time::TimeFormatter;
use tacho_ship::position::order::Order;
use tacho_ship::position::resume::{self, Notice, Resume, ResumeError};
use tacho_ship::position::state::{StateError, StateFile};
use tacho_ship::syslog::{Destination, Sender, Shipment, host_of};
use tacho_ship::tls::{Tls, TlsError, TlsOptions};

use crate::cli::log::{LogSources, OutputFile};
use crate::cli::{ConvertArgs, LogArgs, SendArgs, SlowlogArgs, SyslogBody, Target};
use crate::filter::Filter;
use crate::scan::Scan;
use crate::tail::{self, TailError, Verdict, since};
use crate::{say, signals};
pub use converter::Converter;
use output::{Conversion, Output, Sent};

/// Why a conversion gave up.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The log cannot be read or the result not be written.
    #[error(transparent)]
    Log(#[from] TailError),
    /// Only messages can be sent.
    #[error("--send and --syslog-body need --format syslog")]
    SendFormat,
    /// Other formats have no cells.
    #[error("--guard-formulas needs --format csv-full")]
    GuardFormat,
    /// Options of TLS without TLS.
    #[error("--tls-ca, --tls-cert, --tls-key and --tls-server-name need --send tls://HOST:PORT")]
    TlsOptions,
    /// TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A position needs one log.
    #[error("--state needs exactly one log directory, and excludes --until")]
    StatePlace,
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The log cannot be resumed.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// The log was replaced, so that its numbers have another meaning.
    #[error(
        "{} begins with seq {seq}, which was sent from another file: this is another log. To send it \
         from its start, remove the file of --state and start again", path.display()
    )]
    AnotherLog {
        /// The file.
        path: PathBuf,
        /// Of its first line.
        seq: u64,
    },
    /// The file for the result cannot be created.
    #[error("cannot create {}: {error}; name a new file, existing ones are not overwritten", path.display())]
    Out {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl From<ReadError> for ConvertError {
    fn from(error: ReadError) -> Self {
        TailError::from(error).into()
    }
}

impl ConvertError {
    /// Whether the command line, not the data, is at fault.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Log(error) => error.is_usage(),
            Self::State(StateError::File { .. }) | Self::Resume(ResumeError::Read { .. }) => false,
            _ => true,
        }
    }
}

/// Runs `tacho convert`.
///
/// # Errors
/// See [`ConvertError`]. Broken lines do not stop it; the verdict has their number.
pub fn run(args: &ConvertArgs) -> Result<Verdict, ConvertError> {
    let format = match args.format {
        Target::Csv => Format::Csv,
        Target::CsvFull => Format::CsvFull,
        Target::Json => Format::Json,
        Target::PerconaJson => Format::PerconaJson,
        Target::PerconaNew => Format::PerconaNew,
        Target::PerconaOld => Format::PerconaOld,
        Target::Ocsf => Format::Ocsf,
        Target::Ecs => Format::Ecs,
        Target::Cef => Format::Cef,
        Target::Leef => Format::Leef,
        Target::Syslog => Format::Syslog,
    };
    let host = args.server_host.clone().unwrap_or_else(host_name);
    if (args.send.to.is_some() || args.syslog_body != SyslogBody::Json) && format != Format::Syslog
    {
        return Err(ConvertError::SendFormat);
    }
    if args.guard_formulas && format != Format::CsvFull {
        return Err(ConvertError::GuardFormat);
    }
    let formatter = Formatter::new(format, &host).guarding_formulas(args.guard_formulas);
    let formatter = formatter.with_body(match args.syslog_body {
        SyslogBody::Json => Body::Json,
        SyslogBody::Cef => Body::Cef,
        SyslogBody::Leef => Body::Leef,
        SyslogBody::Ecs => Body::Ecs,
        SyslogBody::Ocsf => Body::Ocsf,
    });
    let clock = args.log.zone.clock();
    match &args.send.to {
        Some(to) => send(args, to, formatter, clock),
        None => {
            let converter = Converter::new(format, formatter, clock);
            let places = places(&args.source, &args.log)?;
            convert(places, &args.log, &args.output, converter)
        }
    }
}

/// Runs `tacho slowlog`.
///
/// # Errors
/// As [`run`].
pub fn slowlog(args: &SlowlogArgs) -> Result<Verdict, ConvertError> {
    let formatter = Formatter::new(Format::Slow, "");
    let converter = Converter::new(Format::Slow, formatter, args.log.zone.clock());
    let (filter, places) = places(&args.source, &args.log)?;
    // It reports how many have no time.
    let places = (filter.keeping_unmeasured(), places);
    convert(places, &args.log, &args.output, converter)
}

/// The filter, and the logs that are read.
fn places(source: &LogSources, args: &LogArgs) -> Result<(Filter, Vec<Input>), ConvertError> {
    args.read.limit.apply();
    let window = since::window(&args.read.range, &Zoned::now()).map_err(TailError::When)?;
    let filter = Filter::new(&args.read.filter, window);
    if args.follow.follow && source.paths.len() > 1 {
        return Err(TailError::FollowSeveral.into());
    }
    let places = source.find()?;
    for place in &places {
        tail::check(place, &filter, args.follow.follow)?;
    }
    Ok((filter, places))
}

fn convert(
    (filter, places): (Filter, Vec<Input>),
    args: &LogArgs,
    output: &OutputFile,
    converter: Converter,
) -> Result<Verdict, ConvertError> {
    let access = tail::access(&args.read.identity)?;
    let stop = Arc::new(AtomicBool::new(false));
    if args.follow.follow {
        signals::catch(&stop).map_err(TailError::Signal)?;
    }
    let out: Box<dyn Write> = match &output.output {
        None => Box::new(io::stdout()),
        // Never over another file: a slip of the keyboard must not cost a log.
        Some(path) => Box::new(
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .map_err(|error| ConvertError::Out { path: path.clone(), error })?,
        ),
    };
    let request = request(&filter, args);
    let mut output = Output::new(Scan::new(stop), filter, Conversion::new(converter, out));
    for place in places {
        read::read(place, &request, &access, &mut output)?;
    }
    output.scan.clear_progress();
    let (conversion, filter) = output.parts();
    for sentence in conversion.finish(filter)? {
        output.scan.note(&sentence);
    }
    Ok(output.scan.finish())
}

fn request(filter: &Filter, args: &LogArgs) -> Request<'static> {
    let (window, follow) = (filter.window(), args.follow.follow);
    Request { from: None, lines: Lines::All, newest_first: false, window, follow }
}

fn send(
    args: &ConvertArgs,
    to: &Destination,
    formatter: Formatter,
    clock: TimeFormatter,
) -> Result<Verdict, ConvertError> {
    let ConvertArgs { source, log, send: args, .. } = args;
    let (mut filter, places) = places(source, log)?;
    let access = tail::access(&log.read.identity)?;
    let tls = tls(to, args)?;
    let mut resume = Resume { from: None, behind: None, note: None };
    let state =
        args.state.as_deref().map(|path| StateFile::open(path, say::reporter())).transpose()?;
    if let Some(state) = &state {
        let [Input::Directory(directory)] = &places[..] else {
            return Err(ConvertError::StatePlace);
        };
        if log.read.range.until.is_some() {
            return Err(ConvertError::StatePlace);
        }
        if let Some(mark) = state.saved() {
            resume = resume::find(directory, state.path(), mark, &access)?;
            // --since has selected the first line of the first run.
            filter = Filter::new(&log.read.filter, Window::default());
        }
    }
    let order =
        matches!(places[..], [Input::Directory(_)]).then(|| Order::new(resume.behind.as_ref()));
    let stop = Arc::new(AtomicBool::new(false));
    let too_large = Arc::new(AtomicU64::new(0));
    signals::catch(&stop).map_err(TailError::Signal)?;
    let has_state = state.is_some();
    let sender = Sender::new(
        to.clone(),
        tls,
        state,
        Arc::clone(&stop),
        Arc::clone(&too_large),
        say::reporter(),
    )
    .give_up_after(args.give_up_after);
    let shipment = Shipment::new(formatter, clock, sender, order);
    let sent = Sent::new(shipment, Arc::clone(&stop));
    let request = Request { from: resume.from.as_deref(), ..request(&filter, log) };
    let mut output = Output::new(Scan::new(stop), filter, sent);
    if let Some(note) = &resume.note {
        output.scan.note(&with_hint(note));
    }
    let mut read = Ok(());
    for place in places {
        read = read::read(place, &request, &access, &mut output);
        if read.is_err() {
            break;
        }
    }
    // Also after a read error: what was read is handed over.
    let left = output.target().shipment.finish()?;
    read?;
    let has_given_up = output.target().shipment.has_given_up();
    let scan = &mut output.scan;
    if has_given_up {
        scan.problem_count += 1;
    }
    if left > 0 {
        let messages = say::counted(left, "message");
        if has_state {
            scan.note(&format!("{to}: {messages} not sent yet; the next run resumes with them"));
        } else {
            scan.problem_count += u64::from(!has_given_up);
            scan.note(&format!("{to}: the run ended before the receiver accepted {messages}"));
        }
    }
    // Reported when they were read.
    scan.problem_count += too_large.load(Ordering::Relaxed);
    Ok(scan.finish())
}

fn with_hint(note: &Notice) -> String {
    match note {
        Notice::Encrypted(_) => format!("{note}; name the key with --identity to read such files"),
        _ => note.to_string(),
    }
}

fn tls(to: &Destination, args: &SendArgs) -> Result<Option<Tls>, ConvertError> {
    let options = TlsOptions {
        ca: args.tls_ca.clone(),
        cert: args.tls_cert.clone(),
        key: args.tls_key.clone(),
        server_name: args.tls_server_name.clone(),
    };
    match to {
        Destination::Tls(address) => Ok(Some(Tls::new(host_of(address), &options)?)),
        _ if options != TlsOptions::default() => Err(ConvertError::TlsOptions),
        _ => Ok(None),
    }
}
