//! `tacho digest`: the digest of statements, and the hashed text.

mod log;

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use tacho_logdir::read::files::STDIN;
use tacho_logdir::read::line_limit::read_until;
use tacho_record::charset::Charset;
use tacho_sql::digest::Normaliser;
use tacho_sql::redact::Setting;
use tacho_sql::{Doubt, Mode};

use crate::cli::log::ReadArgs;
use crate::cli::size;
use crate::line_limit;
use crate::say;
use crate::tail::sanitize::sanitize;

/// Shown at the end of `tacho digest --help`.
const NOTES: &str = "\
Prints a line for each statement: its digest, a tab, its text without literals. Statements with the
same digest have the same form. The digest is that of the field `digest` in the log.

  tacho digest --sql 'SELECT * FROM t WHERE id = 5'
  tacho digest < queries.sql                       one statement a line
  tacho digest /var/lib/mysql/tacho --since today --user app | sort | uniq -c

Filters and WHEN are described in `tacho tail --help`; they need a log. A statement with two lines
in the log is one statement, and is filtered as one.

Exit code: 0 success, 1 a line of the log cannot be read (see stderr), 2 wrong usage.";

/// Arguments of `tacho digest`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct DigestArgs {
    /// Log directories, log files, or `-` for a log on stdin: the statements in them, each in its
    /// character set [default: statements on stdin, one a line; $TACHO_LOG_DIR is not read]
    #[arg(value_name = "DIR|FILE")]
    pub log: Vec<PathBuf>,

    /// A statement; may be repeated
    #[arg(long, value_name = "SQL", conflicts_with = "null")]
    pub sql: Vec<String>,

    /// Which lines of the log.
    #[command(flatten)]
    pub read: ReadArgs,

    /// Statements on stdin end with a NUL byte instead of a newline
    #[arg(short = '0', long)]
    pub null: bool,

    /// Character set of the statements, by the server's name [default: utf8mb4]
    #[arg(long, value_name = "NAME")]
    pub charset: Option<String>,

    /// The server's sql_mode has NO_BACKSLASH_ESCAPES. The recorder assumes that it does not
    #[arg(long)]
    pub no_backslash_escapes: bool,

    /// The server's sql_mode has ANSI_QUOTES. The recorder assumes that it does not
    #[arg(long)]
    pub ansi_quotes: bool,

    /// Length of the text; 0 prints all of it. The digest always covers all of it
    #[arg(long, value_name = size::NAME, default_value = "1KiB", value_parser = size::any::<usize>)]
    pub text_size: usize,
}

/// Runs `tacho digest`. Returns the number of lines that could not be read; stderr has each.
///
/// # Errors
/// Input cannot be read, output cannot be written, or the character set is not one of the server's.
pub fn run(args: &DigestArgs) -> anyhow::Result<u64> {
    args.read.limit.apply();
    let mut printer = Printer {
        args,
        normaliser: Normaliser::default(),
        output: io::BufWriter::new(io::stdout().lock()),
    };
    let problem_count = match Input::of(args)? {
        Input::Logs(paths) => log::print(paths, &args.read, &mut printer)?,
        Input::Statements(statements, charset) => {
            for sql in statements {
                printer.print(sql.as_bytes(), charset, false, None)?;
            }
            0
        }
        Input::Stdin(end, charset) => {
            for_each(io::stdin().lock(), end, |sql| match sql {
                Some(sql) => printer.print(sql, charset, false, None),
                None => Err(io::Error::new(io::ErrorKind::InvalidData, line_limit::too_long())),
            })
            .context("cannot read statements from stdin")?;
            0
        }
    };
    printer.output.flush().context("cannot write to stdout")?;
    Ok(problem_count)
}

/// The source of the statements, with the byte that ends one and the character set.
enum Input<'a> {
    Logs(&'a [PathBuf]),
    Statements(Vec<&'a str>, &'a [u8]),
    Stdin(u8, &'a [u8]),
}

impl<'a> Input<'a> {
    fn of(args: &'a DigestArgs) -> anyhow::Result<Self> {
        let mut sql: Vec<&str> = args.sql.iter().map(String::as_str).collect();
        if !args.log.is_empty() {
            match old_statements(&args.log) {
                None if !sql.is_empty() => bail!("--sql excludes a log; remove one of them"),
                None if args.null => bail!("--null excludes a log; its statements are in lines"),
                None if args.charset.is_some() => {
                    bail!("--charset excludes a log, whose lines name their character set")
                }
                None => return Ok(Self::Logs(&args.log)),
                Some(old) => {
                    say::old_spelling("a statement is now the option --sql SQL");
                    ensure!(!args.null, "--null excludes statements on the command line");
                    sql.extend(old);
                }
            }
        }
        let range = &args.read.range;
        if range.since.is_some() || range.until.is_some() || !args.read.filter.is_empty() {
            bail!("--since, --until and filters need a log: name its directory or file");
        }
        let charset = args.charset.as_deref().unwrap_or("utf8mb4");
        if Charset::by_name(charset.as_bytes()).is_none() {
            bail!("--charset {charset} is not a character set of the server");
        }
        let charset = charset.as_bytes();
        let end = if args.null { 0 } else { b'\n' };
        Ok(if sql.is_empty() { Self::Stdin(end, charset) } else { Self::Statements(sql, charset) })
    }
}

/// Earlier releases took statements as arguments. `None`: these are paths.
fn old_statements(args: &[PathBuf]) -> Option<Vec<&str>> {
    let is_statement = |path: &&PathBuf| {
        let is_path = |text: &str| {
            text == STDIN || (text.starts_with(['/', '.']) && !text.contains(char::is_whitespace))
        };
        path.to_str().is_some_and(|text| !is_path(text)) && path.symlink_metadata().is_err()
    };
    args.iter().any(|path| is_statement(&path)).then_some(())?;
    args.iter().map(|path| path.to_str()).collect()
}

/// Calls `take` with each part of `input` up to an `end`, without it; with `None` for one that is
/// too long.
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

/// Prints the digests of statements.
struct Printer<'a> {
    args: &'a DigestArgs,
    normaliser: Normaliser,
    output: io::BufWriter<io::StdoutLock<'static>>,
}

impl Printer<'_> {
    /// `recorded`: the digest in the line of the log.
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
        // Required to recognise the marks that redaction leaves.
        let doubt = if is_redacted { Doubt::StopButEscapes } else { Doubt::Guess };
        let mode = Mode { escapes, escapes_in_double: escapes, ansi_quotes, doubt, ..mode };
        let text_bytes_max = match self.args.text_size {
            0 => usize::MAX,
            bytes => bytes,
        };
        let normalised = self.normaliser.normalise(sql, mode, text_bytes_max);
        if normalised.out_of_memory {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let charset = Charset::by_name(charset).unwrap_or(Charset::BINARY);
        let mut text = Vec::new();
        // For display: bytes that are not characters become U+FFFD.
        let _ = charset.decode(normalised.text, &mut text);
        let text = sanitize(&String::from_utf8_lossy(&text));
        match recorded {
            Some(digest) => writeln!(self.output, "{}\t{text}", sanitize(digest)),
            None => writeln!(self.output, "{}\t{text}", normalised.digest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_earlier_releases_are_not_paths() {
        let old = |args: &[&str]| {
            let args: Vec<PathBuf> = args.iter().map(PathBuf::from).collect();
            old_statements(&args).map(|statements| statements.len())
        };
        assert_eq!(old(&["SELECT 1", "COMMIT"]), Some(2));
        assert_eq!(old(&["/* a */ SELECT 1"]), Some(1));
        for path in ["-", "/nonexistent/log", "./nonexistent", "/dev/null", "."] {
            assert_eq!(old(&[path]), None, "{path}");
        }
    }

    #[test]
    fn the_default_length_is_the_librarys() {
        assert_eq!(size::bytes("1KiB"), Some(tacho_sql::digest::TEXT_BYTES_DEFAULT as u64));
    }
}
