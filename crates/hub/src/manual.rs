//! Sections of the manual pages that the definition of the commands does not have.

use clap::CommandFactory as _;
use tacho_manual::{Fact, Facts, Manual};

use crate::cli::Cli;

const DATA: &[Fact] = &[
    (
        "/var/lib/tacho-hub",
        "The data of the hub that the systemd unit starts: the copies of the logs in replica, the \
         index in store, accounts, tokens and alerts in hub.sqlite, the hub's own log in audit, the \
         key that signs exports in hub.key and hub.pub.",
    ),
    ("/usr/lib/tachograph/libduckdb.so", "DuckDB, which the query processes load."),
];
const SERVICE: &[Fact] = &[
    ("tacho-hub.service", "The systemd unit."),
    ("/etc/default/tacho-hub", "Its options: TACHO_HUB_OPTIONS."),
];
const PAGES_AND_COMPLETIONS: &[Fact] = &[
    ("/usr/share/bash-completion/completions/tacho-hub", "The completion script for bash."),
    ("/usr/share/man/man1/tacho-hub*.1.gz", "The manual pages."),
];
const HUB: &str = "/usr/share/doc/tacho-hub/docs/guide/hub.md";
const EVIDENCE: &str = "/usr/share/doc/tacho-hub/docs/guide/evidence.md";
const ALERTS: &str = "/usr/share/doc/tacho-hub/docs/guide/alerts.md";
const RETENTION: &str = "/usr/share/doc/tacho-hub/docs/guide/retention.md";
const CONVERT: &str = "/usr/share/doc/tacho-hub/docs/guide/convert.md";
const SEARCH: &str = "/usr/share/doc/tacho-hub/docs/guide/search.md";

/// The pages of all commands.
pub const PAGES: &[Facts] = &[
    Facts {
        name: "tacho-hub",
        examples: &[("tacho-hub serve --data /var/lib/tacho-hub", "Start a hub")],
        files: &[DATA, SERVICE],
        see_also: &["tacho-hub-serve", "tacho-hub-token-create", "tacho-hub-sql", "tacho-ship"],
        guide: HUB,
    },
    Facts {
        name: "tacho-hub-serve",
        examples: &[
            (
                "tacho-hub serve --data hub --log db1=/var/lib/mysql/tacho",
                "Serve the log of this machine, without a shipper",
            ),
            (
                "tacho-hub serve --data /var/lib/tacho-hub --listen 0.0.0.0:7780 \\\n    \
                 --tls-cert hub.pem --tls-key hub.key",
                "Receive the logs of other machines",
            ),
            (
                "tacho-hub serve --data hub --mail-server tls://mail.example \\\n    \
                 --mail-from hub@example.com --mail-to dba@example.com",
                "Send alerts by mail",
            ),
        ],
        files: &[DATA, SERVICE],
        see_also: &["tacho-hub", "tacho-hub-account-create", "tacho-ship"],
        guide: HUB,
    },
    Facts {
        name: "tacho-hub-account",
        examples: &[],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-account-create", "tacho-hub-token"],
        guide: HUB,
    },
    Facts {
        name: "tacho-hub-account-create",
        examples: &[(
            "tacho-hub account create --data hub --role auditor ann <password.txt",
            "Make an account for a person",
        )],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-account", "tacho-hub-token-create"],
        guide: HUB,
    },
    Facts {
        name: "tacho-hub-token",
        examples: &[],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-token-create", "tacho-hub-account"],
        guide: HUB,
    },
    Facts {
        name: "tacho-hub-token-create",
        examples: &[
            (
                "tacho-hub token create --data hub --role agent --server db1",
                "A token with which a shipper sends the log of db1",
            ),
            (
                "tacho-hub token create --data hub --role auditor --days 30",
                "A token for the API that expires",
            ),
        ],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-token", "tacho-ship"],
        guide: HUB,
    },
    Facts {
        name: "tacho-hub-alert",
        examples: &[],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-alert-test", "tacho-hub-serve"],
        guide: ALERTS,
    },
    Facts {
        name: "tacho-hub-alert-test",
        examples: &[("tacho-hub alert test --data hub", "Send a test to each channel")],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-alert", "tacho-hub-serve"],
        guide: ALERTS,
    },
    Facts {
        name: "tacho-hub-retention",
        examples: &[],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-retention-set", "tacho-hub-retention-show"],
        guide: RETENTION,
    },
    Facts {
        name: "tacho-hub-retention-set",
        examples: &[
            (
                "tacho-hub retention set --data hub --server db1 --days 400",
                "Keep the log of db1 for 400 days",
            ),
            (
                "tacho-hub retention set --data hub --server db1 --default",
                "Keep it as long as the others",
            ),
        ],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-retention-show", "tacho-hub-serve"],
        guide: RETENTION,
    },
    Facts {
        name: "tacho-hub-retention-show",
        examples: &[("tacho-hub retention show --data hub", "How long each log is kept")],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-retention-set", "tacho-hub-serve"],
        guide: RETENTION,
    },
    Facts {
        name: "tacho-hub-sql",
        examples: &[(
            "tacho-hub sql --data hub 'SELECT count(*) FROM records'",
            "Count the records",
        )],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-reindex"],
        guide: SEARCH,
    },
    Facts {
        name: "tacho-hub-export",
        examples: &[(
            "tacho-hub export --data hub --server db1 --q user:app --from -7d -o evidence.tar",
            "Export what an account did in a week, for tacho verify on another machine",
        )],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-sql", "tacho-verify"],
        guide: EVIDENCE,
    },
    Facts {
        name: "tacho-hub-convert",
        examples: &[
            (
                "tacho-hub convert /var/lib/mysql/tacho --format parquet -o log.parquet",
                "Convert the log of this machine for DuckDB, Spark or pandas",
            ),
            (
                "tacho tail -n all --since 7d --format json |\n    \
                 tacho-hub convert - --format sqlite -o week.db",
                "Convert the last week into a database",
            ),
        ],
        files: &[],
        see_also: &["tacho-hub", "tacho-convert", "tacho-tail"],
        guide: CONVERT,
    },
    Facts {
        name: "tacho-hub-backup",
        examples: &[(
            "tacho-hub backup --data hub --output /backup/hub-20261126",
            "Copy a hub while it runs",
        )],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-serve", "tacho-hub-reindex"],
        guide: HUB,
    },
    Facts {
        name: "tacho-hub-reindex",
        examples: &[("tacho-hub reindex --data hub", "Build the index again")],
        files: &[DATA],
        see_also: &["tacho-hub", "tacho-hub-sql"],
        guide: HUB,
    },
    Facts {
        name: "tacho-hub-completions",
        examples: &[(". <(tacho-hub completions bash)", "Use them in this shell")],
        files: &[PAGES_AND_COMPLETIONS],
        see_also: &["tacho-hub", "tacho-hub-man", "bash"],
        guide: HUB,
    },
    Facts {
        name: "tacho-hub-man",
        examples: &[("tacho-hub man --output man", "Write all pages")],
        files: &[PAGES_AND_COMPLETIONS],
        see_also: &["tacho-hub", "tacho-hub-completions", "man"],
        guide: HUB,
    },
];

/// The manual of `tacho-hub`.
#[must_use]
pub fn manual() -> Manual {
    Manual::new(Cli::command(), PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[test]
    fn each_command_has_facts_and_no_other() {
        assert_eq!(manual().faults(), [""; 0]);
    }

    #[test]
    fn examples_are_valid_commands() {
        for (command, _) in PAGES.iter().flat_map(|page| page.examples) {
            let words: Vec<&str> = command
                .split_whitespace()
                .filter(|word| *word != "\\" && !word.starts_with('<'))
                .collect();
            if words[0] == "tacho-hub" {
                // The shell takes the quotes away.
                let is_sql = words.contains(&"sql");
                assert!(is_sql || Cli::try_parse_from(words).is_ok(), "{command}");
            }
        }
    }
}
