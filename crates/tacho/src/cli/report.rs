//! The form of reports: text for users or JSON for programs.

use clap::{Args, ValueEnum};

/// How a report is shown.
#[derive(Args, Clone, Copy, Debug)]
pub struct ReportFormat {
    /// Format of the result
    #[arg(long = "format", id = "format", value_name = "FORMAT", value_enum, default_value_t)]
    format: Form,
}

impl ReportFormat {
    /// Whether the report is for a program.
    pub fn is_json(self) -> bool {
        self.format == Form::Json
    }
}

/// Values of `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Text for people
    #[default]
    Text,
    /// JSON objects, one a line
    Json,
}
