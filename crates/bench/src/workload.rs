//! The work of the clients while the methods are compared.

/// The source of a workload's statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementSource {
    /// A script of sysbench.
    Stock(&'static str),
    /// Our own script: its name and text.
    Ours(&'static str, &'static str),
    /// A user's command, run by the shell.
    Command(String),
}

/// One workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// As given on the command line.
    pub name: String,
    /// The displayed title.
    pub title: String,
    /// The source of its statements.
    pub source: StatementSource,
    /// Length of its statements, for scripts that use it.
    pub statement_bytes: u32,
}

const CONNECT: StatementSource =
    StatementSource::Ours("connect.lua", include_str!("../lua/connect.lua"));
const STATEMENT: StatementSource =
    StatementSource::Ours("statement.lua", include_str!("../lua/statement.lua"));

impl Workload {
    /// The built-in workloads.
    pub fn built_in() -> Vec<Self> {
        [
            (
                "oltp_point_select",
                "one row by its key",
                StatementSource::Stock("oltp_point_select"),
                0,
            ),
            (
                "oltp_read_only",
                "14 reads in a transaction",
                StatementSource::Stock("oltp_read_only"),
                0,
            ),
            (
                "oltp_read_write",
                "14 reads, 4 writes in a transaction",
                StatementSource::Stock("oltp_read_write"),
                0,
            ),
            (
                "oltp_write_only",
                "4 writes in a transaction",
                StatementSource::Stock("oltp_write_only"),
                0,
            ),
            ("connect", "a new connection for each point select", CONNECT, 0),
            ("statement_1k", "point selects of 1 KiB of text", STATEMENT, 1 << 10),
            ("statement_8k", "point selects of 8 KiB of text", STATEMENT, 8 << 10),
        ]
        .into_iter()
        .map(|(name, title, source, statement_bytes)| Self {
            name: name.to_owned(),
            title: title.to_owned(),
            source,
            statement_bytes,
        })
        .collect()
    }

    /// A user's command.
    pub fn command(command: &str) -> Self {
        Self {
            name: "command".to_owned(),
            title: command.to_owned(),
            source: StatementSource::Command(command.to_owned()),
            statement_bytes: 0,
        }
    }

    /// Whether sysbench runs it, so that events and their latencies are known.
    pub fn is_sysbench(&self) -> bool {
        !matches!(self.source, StatementSource::Command(_))
    }
}
