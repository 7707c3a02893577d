//! Sections of the manual pages that the definition of the commands does not have.

mod files;

use clap::CommandFactory as _;
use tacho_manual::{Facts, Manual};

use crate::cli::Cli;
use files::{ARENAS, CAPTURE, KEY, LOG, MANUAL, OPTION_FILES, SEAL, SHIP, SYSLOG};

/// The pages of all commands.
pub const PAGES: &[Facts] = &[
    Facts {
        name: "tacho",
        examples: &[
            ("tacho tail -f", "Follow the audit log of this machine's server"),
            (
                "tacho verify /var/lib/mysql/tacho --key audit.pub",
                "Verify that the log was not changed",
            ),
            ("tacho bench --quick", "Measure the overhead of auditing on this machine"),
        ],
        files: &[LOG, SEAL, KEY, ARENAS],
        see_also: &[
            "tacho-tail",
            "tacho-report",
            "tacho-top",
            "tacho-convert",
            "tacho-ship",
            "tacho-slowlog",
            "tacho-verify",
            "tacho-checkpoint",
            "tacho-keygen",
            "tacho-filter",
            "tacho-status",
            "tacho-retention",
            "tacho-recover",
            "tacho-recorder",
            "tacho-capture",
            "tacho-arena",
            "tacho-bench",
            "tacho-pmp",
            "tacho-digest",
            "tacho-migrate",
            "tacho-completions",
            "tacho-man",
        ],
        guide: "/usr/share/doc/tacho/README.md",
    },
    Facts {
        name: "tacho-tail",
        examples: &[
            ("tacho tail", "Show the ten newest lines"),
            ("tacho tail -f --outcome error", "Follow the statements that fail"),
            (
                "tacho tail --since today --sql-command 'create_*,drop_*'",
                "Show what changed the schema today",
            ),
            (
                "tacho tail -n all --format json | jq -r .sql",
                "Pass the log's own lines to another program",
            ),
        ],
        files: &[LOG],
        see_also: &["tacho", "tacho-report", "tacho-convert", "tacho-slowlog", "tacho-digest"],
        guide: "/usr/share/doc/tacho/docs/guide/tail.md",
    },
    Facts {
        name: "tacho-report",
        examples: &[
            ("tacho report --since today --by user,sql_command", "Show what each user did today"),
            (
                "tacho report --since 7d --by digest --sort time --top 10",
                "Show the ten statements that took the most time",
            ),
            (
                "tacho report --by hour,db --format csv >hours.csv",
                "Write the load of each hour for a spreadsheet",
            ),
            ("tacho report logins --since yesterday", "Show who logged in, and who tried"),
        ],
        files: &[LOG],
        see_also: &[
            "tacho",
            "tacho-report-logins",
            "tacho-report-errors",
            "tacho-report-ddl",
            "tacho-report-grants",
            "tacho-report-slow",
            "tacho-report-sessions",
            "tacho-tail",
        ],
        guide: "/usr/share/doc/tacho/docs/guide/report.md",
    },
    Facts {
        name: "tacho-top",
        examples: &[
            ("tacho top", "Show what runs, and the statements of the last minute by digest"),
            (
                "tacho top --by user,host --sort count --window 10m",
                "Show which users sent the most statements in the last ten minutes",
            ),
            ("tacho top --batch --updates 1 >top.txt", "Write what runs now into a file"),
        ],
        files: &[LOG, ARENAS],
        see_also: &["tacho", "tacho-report", "tacho-tail", "tacho-arena", "tacho-status"],
        guide: "/usr/share/doc/tacho/docs/guide/top.md",
    },
    Facts {
        name: "tacho-report-logins",
        examples: &[(
            "tacho report logins --since 7d --sort errors",
            "Show who failed to log in most often",
        )],
        files: &[LOG],
        see_also: &["tacho", "tacho-report", "tacho-tail"],
        guide: "/usr/share/doc/tacho/docs/guide/report.md",
    },
    Facts {
        name: "tacho-report-errors",
        examples: &[("tacho report errors --since today", "Show what failed today")],
        files: &[LOG],
        see_also: &["tacho", "tacho-report", "tacho-tail"],
        guide: "/usr/share/doc/tacho/docs/guide/report.md",
    },
    Facts {
        name: "tacho-report-ddl",
        examples: &[(
            "tacho report ddl --since 30d --top 0",
            "Show all changes of the schema of a month",
        )],
        files: &[LOG],
        see_also: &["tacho", "tacho-report", "tacho-tail"],
        guide: "/usr/share/doc/tacho/docs/guide/report.md",
    },
    Facts {
        name: "tacho-report-grants",
        examples: &[(
            "tacho report grants --since 30d",
            "Show the newest changes of accounts and privileges",
        )],
        files: &[LOG],
        see_also: &["tacho", "tacho-report", "tacho-tail"],
        guide: "/usr/share/doc/tacho/docs/guide/report.md",
    },
    Facts {
        name: "tacho-report-slow",
        examples: &[(
            "tacho report slow --since 1h --db shop",
            "Show what took the most time in the last hour",
        )],
        files: &[LOG],
        see_also: &["tacho", "tacho-report", "tacho-tail"],
        guide: "/usr/share/doc/tacho/docs/guide/report.md",
    },
    Facts {
        name: "tacho-report-sessions",
        examples: &[(
            "tacho report sessions --since today --user root",
            "Show the sessions of an account",
        )],
        files: &[LOG],
        see_also: &["tacho", "tacho-report", "tacho-tail"],
        guide: "/usr/share/doc/tacho/docs/guide/report.md",
    },
    Facts {
        name: "tacho-convert",
        examples: &[
            (
                "tacho convert /var/lib/mysql/tacho --format csv >server_audit.log",
                "Write the log as MariaDB's server_audit does",
            ),
            (
                "tacho convert --since yesterday --format ocsf -o ocsf.jsonl",
                "Write the log since yesterday for a SIEM that reads OCSF",
            ),
            (
                "tacho convert -f --format syslog --send tls://siem.example:6514 \\\n    \
                 --state /var/lib/tacho-syslog/state",
                "Send each line as it is written, and resume where the last run ended",
            ),
        ],
        files: &[LOG, SYSLOG],
        see_also: &["tacho", "tacho-tail", "tacho-slowlog"],
        guide: "/usr/share/doc/tacho/docs/guide/convert.md",
    },
    Facts {
        name: "tacho-ship",
        examples: &[
            (
                "tacho ship --hub https://hub.example:7780 \\\n    \
                 --token-file /etc/tacho/hub.token",
                "Ship the log of this machine's server until the program is stopped",
            ),
            (
                "tacho ship /backup/tacho --hub https://hub.example:7780 \\\n    \
                 --token-file /etc/tacho/hub.token --name db1 --check",
                "Compare a copy of a log with what the hub has",
            ),
        ],
        files: &[LOG, SEAL, SHIP],
        see_also: &["tacho", "tacho-convert", "tacho-verify"],
        guide: "/usr/share/doc/tacho/docs/guide/ship.md",
    },
    Facts {
        name: "tacho-slowlog",
        examples: &[],
        files: &[LOG],
        see_also: &["tacho", "tacho-convert", "tacho-digest", "pt-query-digest"],
        guide: "/usr/share/doc/tacho/docs/guide/convert.md",
    },
    Facts {
        name: "tacho-verify",
        examples: &[
            (
                "tacho verify /var/lib/mysql/tacho --key audit.pub",
                "Check the log with a public key that was kept elsewhere",
            ),
            (
                "tacho verify copy --key audit.pub --expect checkpoint.txt",
                "Check a copy, and that it contains a checkpoint that was kept",
            ),
            (
                "tacho verify evidence.tar --key audit.pub --hub-key hub.pub",
                "Check a bundle of a hub: records with their proof",
            ),
        ],
        files: &[LOG, SEAL],
        see_also: &["tacho", "tacho-checkpoint", "tacho-keygen"],
        guide: "/usr/share/doc/tacho/docs/guide/verify.md",
    },
    Facts {
        name: "tacho-checkpoint",
        examples: &[(
            "tacho checkpoint /var/lib/mysql/tacho | \\\n    \
             ssh audit@elsewhere 'cat >checkpoint-$(date +%s)'",
            "Keep the newest checkpoint on another machine",
        )],
        files: &[SEAL],
        see_also: &["tacho", "tacho-verify", "tacho-keygen"],
        guide: "/usr/share/doc/tacho/docs/guide/verify.md",
    },
    Facts {
        name: "tacho-keygen",
        examples: &[(
            "tacho keygen -o /var/lib/mysql/tacho-signing.key\n\
             chown mysql: /var/lib/mysql/tacho-signing.key",
            "Make the key before the server's first start",
        )],
        files: &[KEY],
        see_also: &["tacho", "tacho-verify", "tacho-checkpoint"],
        guide: "/usr/share/doc/tacho/docs/guide/verify.md",
    },
    Facts {
        name: "tacho-filter",
        examples: &[("tacho filter check filter.json", "Check a filter before it is set")],
        files: &[LOG],
        see_also: &["tacho", "tacho-filter-check"],
        guide: "/usr/share/doc/tacho/docs/guide/filter-check.md",
    },
    Facts {
        name: "tacho-filter-check",
        examples: &[
            ("tacho filter check filter.json", "Check a filter before it is set"),
            (
                "tacho filter check filter.json \\\n    \
                 --log /var/lib/mysql/tacho --since 1d",
                "Show what it would have skipped in a day",
            ),
        ],
        files: &[LOG],
        see_also: &["tacho", "tacho-filter", "tacho-report"],
        guide: "/usr/share/doc/tacho/docs/guide/filter-check.md",
    },
    Facts {
        name: "tacho-status",
        examples: &[
            ("tacho status", "Show the state of the log of this machine's server"),
            (
                "tacho status --format nagios --warn lag=10s --skip unsigned",
                "Answer Nagios or Icinga about a log that is not sealed",
            ),
            (
                "tacho status --format prometheus \\\n    \
                 -o /var/lib/prometheus/node-exporter/tacho.prom",
                "Write the metrics for the textfile collector",
            ),
        ],
        files: &[LOG, SEAL, ARENAS, OPTION_FILES],
        see_also: &["tacho", "tacho-verify", "tacho-arena", "tacho-recover"],
        guide: "/usr/share/doc/tacho/docs/guide/status.md",
    },
    Facts {
        name: "tacho-retention",
        examples: &[
            ("tacho retention --config /etc/mysql/my.cnf", "Show what retention would remove now"),
            (
                "tacho retention --set tacho_retention_days=30",
                "Show what another limit would remove",
            ),
        ],
        files: &[LOG, SEAL, OPTION_FILES],
        see_also: &["tacho", "tacho-status", "tacho-ship"],
        guide: "/usr/share/doc/tacho/docs/guide/retention-preview.md",
    },
    Facts {
        name: "tacho-recover",
        examples: &[
            ("tacho recover --dry-run /var/lib/mysql/tacho", "Show what would be recovered"),
            ("tacho recover /var/lib/mysql/tacho", "Write it to the log"),
        ],
        files: &[LOG, ARENAS, KEY],
        see_also: &["tacho", "tacho-arena", "tacho-recorder"],
        guide: "/usr/share/doc/tacho/docs/guide/recover.md",
    },
    Facts {
        name: "tacho-recorder",
        examples: &[
            ("tacho recorder /var/lib/mysql/tacho", "Write the log in the foreground"),
            ("systemctl enable --now tacho-recorder", "Write the log as a service"),
        ],
        files: &[
            LOG,
            ARENAS,
            KEY,
            &[("tacho-recorder.service", "The systemd unit that runs this command.")],
        ],
        see_also: &["tacho", "tacho-recover", "tacho-arena"],
        guide: "/usr/share/doc/tacho/docs/guide/recorder.md",
    },
    Facts {
        name: "tacho-capture",
        examples: &[
            ("tacho capture --read mysql.pcap", "Show the records of a packet file"),
            (
                "tacho capture --interface eth0 --server 192.0.2.1:3306 --log DIR",
                "Record what passes an interface",
            ),
            (
                "tacho capture --check --interface eth0",
                "Show what a capture of the interface would record",
            ),
        ],
        files: &[ARENAS, KEY, CAPTURE],
        see_also: &["tacho", "tacho-tail", "tcpdump"],
        guide: "/usr/share/doc/tacho/docs/guide/capture.md",
    },
    Facts {
        name: "tacho-arena",
        examples: &[
            ("tacho arena", "Show all arenas of this machine"),
            (
                "tacho arena /dev/shm/tacho-EXAMPLE.arena --records 50",
                "Show the 50 newest records of one arena",
            ),
            (
                "tacho arena /dev/shm/tacho-EXAMPLE.arena --set-overflow DROP",
                "Free a server whose sessions wait for a full disk",
            ),
        ],
        files: &[ARENAS],
        see_also: &["tacho", "tacho-recover", "tacho-recorder"],
        guide: "/usr/share/doc/tacho/docs/guide/arena.md",
    },
    Facts {
        name: "tacho-bench",
        examples: &[
            ("tacho bench --quick", "Measure for three minutes on a private server"),
            (
                "tacho bench --method tacho,server_audit --threads 1,64",
                "Compare two audit plugins with 1 and 64 connections",
            ),
            (
                "tacho bench --socket /run/mysqld/mysqld.sock --user root",
                "Measure on a server that runs",
            ),
            (
                "tacho bench --results tacho-bench.jsonl --noise-max 20",
                "Judge the blocks of an earlier run by another limit of noise",
            ),
        ],
        files: &[
            &[("tacho-bench.jsonl, tacho-bench.html", "The results and the report.")],
            OPTION_FILES,
        ],
        see_also: &["tacho", "tacho-pmp", "sysbench"],
        guide: "/usr/share/doc/tacho/docs/guide/benchmark.md",
    },
    Facts {
        name: "tacho-pmp",
        examples: &[
            (
                "tacho pmp --socket /run/mysqld/mysqld.sock --duration 3s",
                "Profile a server for three seconds",
            ),
            ("tacho pmp --output before", "Keep the profile in a directory"),
        ],
        files: &[&[("/proc/PID", "The threads of the server.")], OPTION_FILES],
        see_also: &["tacho", "tacho-pmp-diff", "tacho-bench", "perf"],
        guide: "/usr/share/doc/tacho/docs/guide/pmp.md",
    },
    Facts {
        name: "tacho-pmp-diff",
        examples: &[(
            "tacho pmp diff before after -o diff.svg",
            "Compare two profiles, and draw the difference",
        )],
        files: &[&[("before, after", "Directories that tacho-pmp(1) wrote with --output.")]],
        see_also: &["tacho", "tacho-pmp"],
        guide: "/usr/share/doc/tacho/docs/guide/pmp.md",
    },
    Facts {
        name: "tacho-digest",
        examples: &[],
        files: &[LOG],
        see_also: &["tacho", "tacho-tail", "tacho-slowlog"],
        guide: "/usr/share/doc/tacho/docs/guide/digest.md",
    },
    Facts {
        name: "tacho-migrate",
        examples: &[
            (
                "tacho migrate --from server_audit \\\n    \
                 --socket /run/mysqld/mysqld.sock --user root >tacho.cnf",
                "Convert the settings of a server that runs",
            ),
            (
                "tacho migrate --from percona --config /etc/mysql/my.cnf >tacho.cnf",
                "Convert the settings of an option file",
            ),
        ],
        files: &[OPTION_FILES],
        see_also: &["tacho", "tacho-convert"],
        guide: "/usr/share/doc/tacho/docs/guide/migrate.md",
    },
    Facts {
        name: "tacho-completions",
        examples: &[(
            "tacho completions bash >/etc/bash_completion.d/tacho",
            "Complete the command in bash",
        )],
        files: &[MANUAL],
        see_also: &["tacho", "tacho-man"],
        guide: "/usr/share/doc/tacho/docs/guide/install.md",
    },
    Facts {
        name: "tacho-man",
        examples: &[(
            "tacho man -o /usr/local/share/man/man1",
            "Write the pages to where man(1) looks for them",
        )],
        files: &[MANUAL],
        see_also: &["tacho", "tacho-completions", "man"],
        guide: "/usr/share/doc/tacho/docs/guide/install.md",
    },
];

/// The manual of `tacho`.
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
                .filter(|word| *word != "\\")
                .take_while(|word| !word.starts_with(['|', '>']) && *word != "chown")
                .collect();
            assert!(command.lines().all(|line| line.chars().count() <= 66), "{command}");
            if words[0] == "tacho" {
                assert!(Cli::try_parse_from(words).is_ok(), "{command}");
            }
        }
    }
}
