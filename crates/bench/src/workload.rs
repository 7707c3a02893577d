//! What the clients do while the methods are compared.

/// Where the statements of a workload come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A script that comes with sysbench.
    Stock(&'static str),
    /// One of ours: its name and text.
    Ours(&'static str, &'static str),
    /// A command of the user's, run by the shell.
    Command(String),
}

/// One workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// As given on the command line.
    pub name: String,
    /// For people.
    pub title: String,
    /// Where its statements come from.
    pub source: Source,
    /// Length of its statements, for scripts that ask.
    pub statement_bytes: u32,
}

const CONNECT: Source = Source::Ours("connect.lua", include_str!("../lua/connect.lua"));
const STATEMENT: Source = Source::Ours("statement.lua", include_str!("../lua/statement.lua"));

impl Workload {
    /// Those that are built in.
    pub fn built_in() -> Vec<Self> {
        [
            ("oltp_point_select", "one row by its key", Source::Stock("oltp_point_select"), 0),
            ("oltp_read_only", "14 reads in a transaction", Source::Stock("oltp_read_only"), 0),
            (
                "oltp_read_write",
                "14 reads, 4 writes in a transaction",
                Source::Stock("oltp_read_write"),
                0,
            ),
            ("oltp_write_only", "4 writes in a transaction", Source::Stock("oltp_write_only"), 0),
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

    /// The user's own command.
    pub fn command(command: &str) -> Self {
        Self {
            name: "command".to_owned(),
            title: command.to_owned(),
            source: Source::Command(command.to_owned()),
            statement_bytes: 0,
        }
    }

    /// Whether it is sysbench that runs it, so that events and their latencies are known.
    pub fn is_sysbench(&self) -> bool {
        !matches!(self.source, Source::Command(_))
    }
}
