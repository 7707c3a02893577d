//! The table. A new setting is a row here; then `TACHO_BLESS=1 cargo test -p tacho-settings` writes
//! the C header and the tables of the guide.

use crate::spec::{Content, Owner, Spec, Unit};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const EIB: u64 = 1 << 60;
const DAY_S: u64 = 86_400;

macro_rules! settings {
    ($($setting:ident = $spec:expr, $help:literal;)*) => {
        /// A setting. Its number is its place in the table, and that of `enum tacho_setting` in
        /// `include/tacho_settings.h`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        pub enum Setting {
            $(#[doc = $help] $setting,)*
        }

        impl Setting {
            /// All, in the order of the table.
            pub const ALL: [Setting; Setting::COUNT] = [$(Setting::$setting),*];
            /// How many there are.
            pub const COUNT: usize = [$($help),*].len();
        }

        pub(crate) static TABLE: [Spec; Setting::COUNT] = [$($spec.help($help)),*];
    };
}

// The order is that of the guide, and the order in which an adapter gives the values to a recorder
// that it has just started; only `logging` comes last there. What the last server has left in another
// format comes before everything that moves files: `timestamps` and `format` are before the settings
// of rotation, retention and compression.
settings! {
    Logging = Spec::switch("logging", true).owned_by(Owner::Arena),
        "Record or not";
    Directory = Spec::text("directory", Content::Path, "tacho").at_start(),
        "Directory of the log files; a relative path starts in the data directory";
    ArenaDirectory = Spec::text("arena_directory", Content::Path, "/dev/shm").at_start(),
        "Directory of the arena: a file system in memory";
    ArenaBytes = Spec::number("arena_bytes", Unit::Bytes, 64 * MIB, [MIB, 64 * GIB])
            .at_start()
            .step(4096),
        "Size of the arena, the buffer between the server and the log, bytes";
    SigningKeyFile = Spec::text("signing_key_file", Content::Path, "tacho-signing.key").at_start(),
        "Path of the key that signs the log, made if it is missing; a relative path starts in the \
         data directory. Empty: the log is not sealed";
    CheckpointIntervalS = Spec::number("checkpoint_interval_s", Unit::Seconds, 60, [0, DAY_S]),
        "How often the log is signed, seconds; 0 = only at rotation and stop";
    FlushIntervalMs = Spec::number("flush_interval_ms", Unit::Milliseconds, 100, [1, 60_000]),
        "Longest time a finished record stays unwritten, milliseconds";
    FlushBytes = Spec::number("flush_bytes", Unit::Bytes, 256 * KIB, [1, GIB]),
        "Write earlier when this much is waiting, bytes";
    Overflow = Spec::choice("overflow", &["BLOCK", "TIMEOUT", "DROP"]).owned_by(Owner::Arena),
        "When the arena is full: BLOCK waits (nothing is lost), TIMEOUT waits \
         tacho_overflow_timeout_ms, DROP does not wait; losses are counted and logged";
    OverflowTimeoutMs =
        Spec::number("overflow_timeout_ms", Unit::Milliseconds, 1000, [0, 3_600_000])
            .owned_by(Owner::Arena),
        "Longest wait with tacho_overflow=TIMEOUT, milliseconds";
    Durability = Spec::choice("durability", &["ASYNC", "GROUP", "SYNC"]).owned_by(Owner::Arena),
        "When the log is on the device: ASYNC when the operating system decides, GROUP every \
         tacho_sync_interval_ms, SYNC before a statement begins";
    SyncIntervalMs = Spec::number("sync_interval_ms", Unit::Milliseconds, 1000, [1, 3_600_000]),
        "How often the log is synced to the device with tacho_durability=GROUP or SYNC, milliseconds";
    Timestamps = Spec::choice("timestamps", &["SYSTEM", "UTC"]),
        "Zone of the time stamps: SYSTEM (local time with offset) or UTC";
    Format =
        Spec::choice("format", &["JSON", "CSV", "PERCONA_JSON", "PERCONA_NEW", "PERCONA_OLD"]),
        "Format of a second file beside each log file: CSV (as server_audit writes it), PERCONA_JSON, \
         PERCONA_NEW, PERCONA_OLD (as audit_log writes them). JSON: there is none";
    RotateBytes = Spec::number("rotate_bytes", Unit::Bytes, 256 * MIB, [0, 64 * TIB]),
        "Begin a new file at this size, bytes; 0 = never";
    RotateIntervalS = Spec::number("rotate_interval_s", Unit::Seconds, 0, [0, 366 * DAY_S]),
        "Begin a new file when the current one is this old, seconds; 0 = never";
    RetentionDays = Spec::number("retention_days", Unit::Days, 183, [0, 36_525]),
        "Remove closed files that ended longer ago, days; 0 = keep them";
    RetentionBytes = Spec::number("retention_bytes", Unit::Bytes, 0, [0, EIB]),
        "Remove the oldest closed files while the log is larger, bytes; 0 = keep them";
    RetentionFiles = Spec::number("retention_files", Unit::Files, 0, [0, 1_000_000]),
        "Remove the oldest closed files while there are more than this; 0 = keep them";
    RetentionUnshipped = Spec::choice("retention_unshipped", &["KEEP", "REMOVE"]),
        "Closed files that a hub of `tacho ship` has not acknowledged: KEEP them until less than 5 \
         per cent of the file system is free, or REMOVE them as the others";
    Compression = Spec::choice("compression", &["NONE", "ZSTD"]),
        "Compression of closed files: NONE, or ZSTD in the background, up to 1 TiB per file";
    EncryptionRecipientsFile = Spec::text("encryption_recipients_file", Content::Path, ""),
        "File with the public keys (age1...) that closed files are encrypted to, read when this is \
         set; empty: they are not encrypted";
    DiskWarnPercent = Spec::number("disk_warn_percent", Unit::Percent, 10, [0, 100]),
        "Warn when less of the log's file system is free, per cent; 0 = never";
    Writer = Spec::choice("writer", &["EMBEDDED", "EXTERNAL"]).owned_by(Owner::Server),
        "Writer of the log: EMBEDDED (a thread of the server), or EXTERNAL (the process `tacho \
         recorder`, and the thread while that does not run)";
    FlushNow = Spec::command("flush_now"),
        "Set to 1: write all finished records now, not after tacho_flush_interval_ms";
    RotateNow = Spec::command("rotate_now"),
        "Set to 1: begin a new file now";
    MaxStatementBytes = Spec::number("max_statement_bytes", Unit::Bytes, 0, [0, 4 * GIB]),
        "Cut statements at this length, bytes; 0 = record them whole";
    Filter = Spec::text("filter", Content::Json, ""),
        "Which statements are recorded, and how: rules in JSON; empty = all, whole";
    FilterFile = Spec::text("filter_file", Content::Path, ""),
        "File with the rules of tacho_filter, read when this is set";
    Digest = Spec::switch("digest", true),
        "Give each statement the hash of its shape, without literals";
    Redact = Spec::choice("redact", &["SECRETS", "LITERALS"]).owned_by(Owner::Arena),
        "Removed from statements: SECRETS (passwords and keys) or LITERALS (every literal as well)";
    Tables = Spec::switch("tables", false).at_start(),
        "Record which tables each statement touches; costs one event for each";
    EventClasses = Spec::text("event_classes", Content::List, "").at_start().only_mysql(),
        "Further events to record: AUTHENTICATION, GLOBAL_VARIABLE, LIFECYCLE, MESSAGE, \
         STORED_PROGRAM, separated by commas, or ALL";
    Traces = Spec::choice("traces", &["OFF", "ON", "CHANGES"])
            .default_choice(1)
            .owned_by(Owner::Adapter)
            .only_mysql(),
        "Subscribe to the server's telemetry traces, which only one component can: affected rows, \
         lock times, error messages, and the statements of stored programs. CHANGES: not to those \
         of a SELECT, which is cheaper";
}
