//! The files that the manual pages name.

use tacho_manual::Fact;

pub const LOG: &[Fact] = &[(
    "/var/lib/mysql/tacho/audit-*.jsonl",
    "The audit log in its default directory (tacho_directory). The ending .zst marks a compressed \
     file, .age an encrypted one.",
)];
pub const SEAL: &[Fact] = &[
    (
        "/var/lib/mysql/tacho/audit-*.chain",
        "The seal of a log file: digests and signed checkpoints.",
    ),
    (
        "/var/lib/mysql/tacho/removed.chain",
        "The tombstones of the log files that retention removed.",
    ),
];
pub const KEY: &[Fact] = &[(
    "/var/lib/mysql/tacho-signing.key",
    "The signing key of the server, by default beside the log directory (tacho_signing_key_file).",
)];
pub const ARENAS: &[Fact] = &[(
    "/dev/shm/tacho-*",
    "Arenas: the shared memory of servers that record (tacho_arena_directory).",
)];
pub const OPTION_FILES: &[Fact] = &[
    ("~/.my.cnf", "Option file of the client programs, for the login."),
    ("/etc/mysql/my.cnf", "Option file of the server."),
];
pub const SYSLOG: &[Fact] = &[
    ("tacho-syslog.service", "The systemd unit that sends the log to a syslog server."),
    ("/etc/default/tacho-syslog", "The settings of that unit."),
];
pub const CAPTURE: &[Fact] = &[
    ("tacho-capture.service", "The systemd unit that records an interface."),
    ("/etc/default/tacho-capture", "The settings of that unit."),
];
pub const SHIP: &[Fact] = &[
    ("tacho-ship.service", "The systemd unit that ships the log to a hub."),
    ("/etc/default/tacho-ship", "The settings of that unit."),
    ("/etc/tacho/hub.token", "The token that it uses."),
];
pub const MANUAL: &[Fact] = &[
    ("/usr/share/bash-completion/completions/tacho", "The completion script for bash."),
    ("/usr/share/man/man1/tacho*.1.gz", "The manual pages."),
];
