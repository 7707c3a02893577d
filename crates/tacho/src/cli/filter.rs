//! The filters of lines, of every command that has them.

use clap::Args;
use clap::builder::PossibleValuesParser;
use tacho_record::{EventKind, Outcome};

use super::number;

/// Filters of lines.
#[derive(Args, Debug)]
pub struct FilterArgs {
    /// User name that the client gave, or account name of its privileges
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub user: Vec<String>,

    /// Default database, or database of a table in the statement
    #[arg(long, value_name = "DB", value_delimiter = ',')]
    pub db: Vec<String>,

    /// Client host name or address
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub host: Vec<String>,

    /// Connection id
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = number::whole::<u64>)]
    pub conn: Vec<u64>,

    /// Run of the server: the number in the field `run`, or `last`
    #[arg(long, value_name = "N|last", value_delimiter = ',', value_parser = parse_run)]
    pub run: Vec<Run>,

    // A fixed list: a mistyped name must not look like an empty log.
    /// Kind of event
    #[arg(long, value_name = "EVENT", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(EventKind::ALL.map(EventKind::name)))]
    pub event: Vec<String>,

    /// Class of the statement, by the server's name: `select`, `create_*`
    #[arg(long, value_name = "COMMAND", value_delimiter = ',')]
    pub sql_command: Vec<String>,

    /// Server error number
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = number::whole::<u32>)]
    pub errno: Vec<u32>,

    /// Outcome of the statement or connection
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(Outcome::ALL.map(Outcome::name)))]
    pub outcome: Vec<String>,

    /// Statement text matches this regular expression; a leading `(?i)` ignores case
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<String>,

    /// Digest of the statement, or its first digits, with or without the version prefix
    #[arg(long, value_name = "HEX", value_delimiter = ',', value_parser = parse_digest)]
    pub digest: Vec<String>,
}

/// Filters of the server's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// The run whose `start` line has this number.
    Number(u64),
    /// The newest run of the log; with --follow also later ones.
    Last,
}

fn parse_run(text: &str) -> Result<Run, String> {
    if text == "last" {
        return Ok(Run::Last);
    }
    let number = text.parse().map_err(|_| "expected a number, or `last`".to_owned())?;
    Ok(Run::Number(number))
}

fn parse_digest(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    let hash = text.split_once(':').map_or(&*text, |(_, hash)| hash);
    if hash.is_empty() || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("expected hexadecimal digits, as in the field `digest`".to_owned());
    }
    Ok(text)
}
