//! `tacho digest`: what a statement's digest is, and what it is the hash of.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Deserialize;
use tacho_logdir::read::files::{self, STDIN};
use tacho_logdir::read::line_limit::read_until;
use tacho_logdir::read::{ReadError, content};
use tacho_record::charset::{Charset, restore};
use tacho_sql::digest::{Normaliser, TEXT_BYTES_DEFAULT};
use tacho_sql::redact::Setting;
use tacho_sql::{Doubt, Mode};

use crate::cli::IdentityArgs;
use crate::cli::number;
use crate::line_limit::{self, LimitArgs};
use crate::say;
use crate::tail::TailError;
use crate::tail::visible::visible;

/// Shown at the end of `tacho digest --help`.
const NOTES: &str = "\
Prints a line for each statement: digest, a tab, the text without literals. Statements with the same
digest are of one shape. The digest is the one in the field `digest` of the log.

  tacho digest 'SELECT * FROM t WHERE id = 5'
  tacho digest < queries.sql                       a statement a line
  tacho digest --log /var/lib/mysql/tacho/audit-20261121T015944Z-000042.jsonl | sort | uniq -c

Exit code: 0 fine, 1 a line of the log cannot be read (told on stderr), 2 wrong usage.";

/// Arguments of `tacho digest`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct DigestArgs {
    /// Statements [default: those of the standard input, one a line]
    #[arg(value_name = "SQL", conflicts_with_all = ["log", "null"])]
    pub sql: Vec<String>,

    /// The statements of a log directory or file, each in its character set; `-` for stdin
    #[arg(long, value_name = "DIR|FILE")]
    pub log: Option<PathBuf>,

    /// An encrypted file of the log.
    #[command(flatten)]
    pub identity: IdentityArgs,

    /// Long lines.
    #[command(flatten)]
    pub limit: LimitArgs,

    /// Statements of the standard input end with a NUL byte, not with a newline
    #[arg(short = '0', long, conflicts_with = "log")]
    pub null: bool,

    /// Character set of the statements, by the server's name
    #[arg(long, value_name = "NAME", default_value = "utf8mb4", conflicts_with = "log")]
    pub charset: String,

    /// The server's sql_mode has NO_BACKSLASH_ESCAPES. The recorder assumes that it has not
    #[arg(long)]
    pub no_backslash_escapes: bool,

    /// The server's sql_mode has ANSI_QUOTES. The recorder assumes that it has not
    #[arg(long)]
    pub ansi_quotes: bool,

    /// Length of the text, bytes; 0 = all of it. The digest is always that of all of it
    #[arg(long, value_name = "BYTES", default_value_t = TEXT_BYTES_DEFAULT, value_parser = number::whole::<usize>)]
    pub text_bytes: usize,
}

/// The fields of a line of the log that matter here.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    event: String,
    sql: Option<String>,
    sql_b64: Option<String>,
    #[serde(default)]
    sql_charset: String,
    #[serde(default)]
    sql_redacted: bool,
    digest: Option<String>,
}

/// Runs `tacho digest`. Returns the number of lines that could not be read, which were told on
/// stderr.
///
/// # Errors
/// Input cannot be read, output cannot be written, or the character set is not one of the server's.
pub fn run(args: &DigestArgs) -> anyhow::Result<u64> {
    args.limit.apply();
    let mut printer = Printer {
        args,
        normaliser: Normaliser::default(),
        output: io::BufWriter::new(io::stdout().lock()),
    };
    let problem_count = match &args.log {
        Some(path) if path.is_dir() => {
            let listing = files::list(path).with_context(|| path.display().to_string())?;
            if listing.files.is_empty() {
                bail!(TailError::from(ReadError::NoFiles(path.clone())));
            }
            let mut problem_count = 0;
            for file in listing.files {
                problem_count += of_log(&file.path, &mut printer)?;
            }
            problem_count
        }
        Some(path) => {
            if path != Path::new(STDIN) {
                content::check_is_log(path).with_context(|| path.display().to_string())?;
            }
            of_log(path, &mut printer)?
        }
        None => {
            if Charset::by_name(args.charset.as_bytes()).is_none() {
                bail!("--charset {}: the server has no such character set", args.charset);
            }
            if args.sql.is_empty() {
                let end = if args.null { 0 } else { b'\n' };
                for_each(io::stdin().lock(), end, |sql| match sql {
                    Some(sql) => printer.print(sql, args.charset.as_bytes(), false, None),
                    None => Err(io::Error::new(io::ErrorKind::InvalidData, line_limit::too_long())),
                })
                .context("reading statements")?;
            }
            for sql in &args.sql {
                printer.print(sql.as_bytes(), args.charset.as_bytes(), false, None)?;
            }
            0
        }
    };
    printer.output.flush().context("writing to stdout")?;
    Ok(problem_count)
}

fn of_log(path: &Path, printer: &mut Printer<'_>) -> anyhow::Result<u64> {
    let input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        content::open(path, &printer.args.identity.read()?)
            .with_context(|| path.display().to_string())?
    };
    let (mut number, mut problem_count) = (0_u64, 0);
    for_each(input, b'\n', |line| {
        number += 1;
        match line.ok_or_else(line_limit::too_long).and_then(parse) {
            Ok(Some((line, sql))) => {
                let charset = line.sql_charset.as_bytes();
                printer.print(&sql, charset, line.sql_redacted, line.digest.as_deref())
            }
            Ok(None) => Ok(()),
            Err(reason) => {
                problem_count += 1;
                say::problem(format!("{}:{number}: {reason}", path.display()));
                Ok(())
            }
        }
    })
    .with_context(|| path.display().to_string())?;
    Ok(problem_count)
}

/// The line of a statement with a text, and the bytes of that.
fn parse(line: &[u8]) -> Result<Option<(Line, Vec<u8>)>, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let Some(sql) = line.sql.as_deref().filter(|_| line.event == "statement") else {
        return Ok(None);
    };
    let charset = Charset::by_name(line.sql_charset.as_bytes()).unwrap_or(Charset::BINARY);
    let bytes = restore(sql, line.sql_b64.as_deref(), charset).map_err(|e| e.to_string())?;
    Ok(Some((line, bytes)))
}

/// Calls `take` with each part of `input` up to an `end`, without that; `None` for one that is too long.
fn for_each(
    mut input: impl BufRead,
    end: u8,
    mut take: impl FnMut(Option<&[u8]>) -> io::Result<()>,
) -> io::Result<()> {
    let mut part = Vec::new();
    loop {
        let length = read_until(&mut input, end, &mut part, line_limit::get())?;
        if length.bytes == 0 {
            return Ok(());
        }
        let part = part.strip_suffix(&[end]).unwrap_or(&part);
        if length.is_too_long {
            take(None)?;
        } else if !part.trim_ascii().is_empty() {
            take(Some(part))?;
        }
    }
}

/// Prints what becomes of statements.
struct Printer<'a> {
    args: &'a DigestArgs,
    normaliser: Normaliser,
    output: io::BufWriter<io::StdoutLock<'static>>,
}

impl Printer<'_> {
    /// `recorded`: the digest that the line of the log has.
    fn print(
        &mut self,
        sql: &[u8],
        charset: &[u8],
        is_redacted: bool,
        recorded: Option<&str>,
    ) -> io::Result<()> {
        let Some(mode) = Setting::of(charset, b"").digest_mode() else {
            return Ok(());
        };
        let escapes = !self.args.no_backslash_escapes;
        let ansi_quotes = self.args.ansi_quotes;
        // Only so are the marks that redaction leaves taken for what they are.
        let doubt = if is_redacted { Doubt::StopButEscapes } else { Doubt::Guess };
        let mode = Mode { escapes, escapes_in_double: escapes, ansi_quotes, doubt, ..mode };
        let text_bytes_max = match self.args.text_bytes {
            0 => usize::MAX,
            bytes => bytes,
        };
        let normalised = self.normaliser.normalise(sql, mode, text_bytes_max);
        if normalised.out_of_memory {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let charset = Charset::by_name(charset).unwrap_or(Charset::BINARY);
        let mut text = Vec::new();
        // For people: what is not a character is shown as U+FFFD.
        let _ = charset.decode(normalised.text, &mut text);
        let text = visible(&String::from_utf8_lossy(&text));
        match recorded {
            Some(digest) => writeln!(self.output, "{}\t{text}", visible(digest)),
            None => writeln!(self.output, "{}\t{text}", normalised.digest),
        }
    }
}
