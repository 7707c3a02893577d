/* Zone: cold. The settings of the recorder, for the adapters.
 *
 * Generated from crates/settings/src/table.rs by crates/settings/tests/header.rs. Do not edit:
 * TACHO_BLESS=1 cargo test -p tacho-settings
 */
#ifndef TACHO_SETTINGS_H
#define TACHO_SETTINGS_H

/* clang-format off */

/* A setting: its place in the table. */
enum tacho_setting {
    TACHO_SETTING_LOGGING = 0,
    TACHO_SETTING_DIRECTORY = 1,
    TACHO_SETTING_ARENA_DIRECTORY = 2,
    TACHO_SETTING_ARENA_BYTES = 3,
    TACHO_SETTING_SIGNING_KEY_FILE = 4,
    TACHO_SETTING_CHECKPOINT_INTERVAL_S = 5,
    TACHO_SETTING_FLUSH_INTERVAL_MS = 6,
    TACHO_SETTING_FLUSH_BYTES = 7,
    TACHO_SETTING_OVERFLOW = 8,
    TACHO_SETTING_OVERFLOW_TIMEOUT_MS = 9,
    TACHO_SETTING_DURABILITY = 10,
    TACHO_SETTING_SYNC_INTERVAL_MS = 11,
    TACHO_SETTING_TIMESTAMPS = 12,
    TACHO_SETTING_FORMAT = 13,
    TACHO_SETTING_ROTATE_BYTES = 14,
    TACHO_SETTING_ROTATE_INTERVAL_S = 15,
    TACHO_SETTING_RETENTION_DAYS = 16,
    TACHO_SETTING_RETENTION_BYTES = 17,
    TACHO_SETTING_RETENTION_FILES = 18,
    TACHO_SETTING_RETENTION_UNSHIPPED = 19,
    TACHO_SETTING_COMPRESSION = 20,
    TACHO_SETTING_ENCRYPTION_RECIPIENTS_FILE = 21,
    TACHO_SETTING_DISK_WARN_PERCENT = 22,
    TACHO_SETTING_WRITER = 23,
    TACHO_SETTING_FLUSH_NOW = 24,
    TACHO_SETTING_ROTATE_NOW = 25,
    TACHO_SETTING_MAX_STATEMENT_BYTES = 26,
    TACHO_SETTING_FILTER = 27,
    TACHO_SETTING_FILTER_FILE = 28,
    TACHO_SETTING_DIGEST = 29,
    TACHO_SETTING_REDACT = 30,
    TACHO_SETTING_TABLES = 31,
    TACHO_SETTING_EVENT_CLASSES = 32,
    TACHO_SETTING_TRACES = 33
};

#define TACHO_SETTING_COUNT 34

/* Values of TACHO_SETTING_OVERFLOW. */
enum tacho_overflow {
    TACHO_OVERFLOW_BLOCK = 0,
    TACHO_OVERFLOW_TIMEOUT = 1,
    TACHO_OVERFLOW_DROP = 2
};

/* Values of TACHO_SETTING_DURABILITY. */
enum tacho_durability {
    TACHO_DURABILITY_ASYNC = 0,
    TACHO_DURABILITY_GROUP = 1,
    TACHO_DURABILITY_SYNC = 2
};

/* Values of TACHO_SETTING_TIMESTAMPS. */
enum tacho_timestamps {
    TACHO_TIMESTAMPS_SYSTEM = 0,
    TACHO_TIMESTAMPS_UTC = 1
};

/* Values of TACHO_SETTING_FORMAT. */
enum tacho_format {
    TACHO_FORMAT_JSON = 0,
    TACHO_FORMAT_CSV = 1,
    TACHO_FORMAT_PERCONA_JSON = 2,
    TACHO_FORMAT_PERCONA_NEW = 3,
    TACHO_FORMAT_PERCONA_OLD = 4
};

/* Values of TACHO_SETTING_RETENTION_UNSHIPPED. */
enum tacho_retention_unshipped {
    TACHO_RETENTION_UNSHIPPED_KEEP = 0,
    TACHO_RETENTION_UNSHIPPED_REMOVE = 1
};

/* Values of TACHO_SETTING_COMPRESSION. */
enum tacho_compression {
    TACHO_COMPRESSION_NONE = 0,
    TACHO_COMPRESSION_ZSTD = 1
};

/* Values of TACHO_SETTING_WRITER. */
enum tacho_writer {
    TACHO_WRITER_EMBEDDED = 0,
    TACHO_WRITER_EXTERNAL = 1
};

/* Values of TACHO_SETTING_REDACT. */
enum tacho_redact {
    TACHO_REDACT_SECRETS = 0,
    TACHO_REDACT_LITERALS = 1
};

/* Values of TACHO_SETTING_TRACES. */
enum tacho_traces {
    TACHO_TRACES_OFF = 0,
    TACHO_TRACES_ON = 1,
    TACHO_TRACES_CHANGES = 2
};

/* Calls a macro of its kind for each setting, in the order of the table:
 *
 *   NUMBER(servers, change, owner, name, NAME, default, min, max, step, help)
 *   SWITCH(servers, change, owner, name, NAME, default, help)
 *   CHOICE(servers, change, owner, name, NAME, default, (names), help)
 *   TEXT(servers, change, owner, name, NAME, default, help)
 *   COMMAND(servers, change, owner, name, NAME, help)
 *
 *   servers   ALL; MYSQL: only 9.7 and 8.0
 *   change    DYNAMIC: SET GLOBAL can change it; AT_START: it cannot
 *   owner     RECORDER: tacho_embed_set() passes it on; ADAPTER: the adapter uses it itself
 *   NAME      behind TACHO_SETTING_
 *   help      uses TACHO_VARIABLE("name") for the names of other settings
 */
#define TACHO_SETTINGS(NUMBER, SWITCH, CHOICE, TEXT, COMMAND) \
    SWITCH(ALL, DYNAMIC, RECORDER, logging, LOGGING, \
        1, \
        "Record or not") \
    TEXT(ALL, AT_START, ADAPTER, directory, DIRECTORY, \
        "tacho", \
        "Directory of the log files; a relative path starts in the data directory") \
    TEXT(ALL, AT_START, ADAPTER, arena_directory, ARENA_DIRECTORY, \
        "/dev/shm", \
        "Directory of the arena: a file system in memory") \
    NUMBER(ALL, AT_START, ADAPTER, arena_bytes, ARENA_BYTES, \
        67108864ULL, 1048576ULL, 68719476736ULL, 4096ULL, \
        "Size of the arena, the buffer between the server and the log, bytes") \
    TEXT(ALL, AT_START, ADAPTER, signing_key_file, SIGNING_KEY_FILE, \
        "tacho-signing.key", \
        "Path of the key that signs the log, made if it is missing; a relative path starts in " \
        "the data directory. Empty: the log is not sealed") \
    NUMBER(ALL, DYNAMIC, RECORDER, checkpoint_interval_s, CHECKPOINT_INTERVAL_S, \
        60ULL, 0ULL, 86400ULL, 1ULL, \
        "How often the log is signed, seconds; 0 = only at rotation and stop") \
    NUMBER(ALL, DYNAMIC, RECORDER, flush_interval_ms, FLUSH_INTERVAL_MS, \
        100ULL, 1ULL, 60000ULL, 1ULL, \
        "Longest time a finished record stays unwritten, milliseconds") \
    NUMBER(ALL, DYNAMIC, RECORDER, flush_bytes, FLUSH_BYTES, \
        262144ULL, 1ULL, 1073741824ULL, 1ULL, \
        "Write earlier when this much is waiting, bytes") \
    CHOICE(ALL, DYNAMIC, RECORDER, overflow, OVERFLOW, \
        0, ("BLOCK", "TIMEOUT", "DROP"), \
        "When the arena is full: BLOCK waits (nothing is lost), TIMEOUT waits " \
        TACHO_VARIABLE("overflow_timeout_ms") \
        ", DROP does not wait; losses are counted and logged") \
    NUMBER(ALL, DYNAMIC, RECORDER, overflow_timeout_ms, OVERFLOW_TIMEOUT_MS, \
        1000ULL, 0ULL, 3600000ULL, 1ULL, \
        "Longest wait with " \
        TACHO_VARIABLE("overflow") \
        "=TIMEOUT, milliseconds") \
    CHOICE(ALL, DYNAMIC, RECORDER, durability, DURABILITY, \
        0, ("ASYNC", "GROUP", "SYNC"), \
        "When the log is on the device: ASYNC when the operating system decides, GROUP every " \
        TACHO_VARIABLE("sync_interval_ms") \
        ", SYNC before a statement begins") \
    NUMBER(ALL, DYNAMIC, RECORDER, sync_interval_ms, SYNC_INTERVAL_MS, \
        1000ULL, 1ULL, 3600000ULL, 1ULL, \
        "How often the log is synced to the device with " \
        TACHO_VARIABLE("durability") \
        "=GROUP or SYNC, milliseconds") \
    CHOICE(ALL, DYNAMIC, RECORDER, timestamps, TIMESTAMPS, \
        0, ("SYSTEM", "UTC"), \
        "Zone of the time stamps: SYSTEM (local time with offset) or UTC") \
    CHOICE(ALL, DYNAMIC, RECORDER, format, FORMAT, \
        0, ("JSON", "CSV", "PERCONA_JSON", "PERCONA_NEW", "PERCONA_OLD"), \
        "Format of a second file beside each log file: CSV (as server_audit writes it), " \
        "PERCONA_JSON, PERCONA_NEW, PERCONA_OLD (as audit_log writes them). JSON: there is none") \
    NUMBER(ALL, DYNAMIC, RECORDER, rotate_bytes, ROTATE_BYTES, \
        268435456ULL, 0ULL, 70368744177664ULL, 1ULL, \
        "Begin a new file at this size, bytes; 0 = never") \
    NUMBER(ALL, DYNAMIC, RECORDER, rotate_interval_s, ROTATE_INTERVAL_S, \
        0ULL, 0ULL, 31622400ULL, 1ULL, \
        "Begin a new file when the current one is this old, seconds; 0 = never") \
    NUMBER(ALL, DYNAMIC, RECORDER, retention_days, RETENTION_DAYS, \
        183ULL, 0ULL, 36525ULL, 1ULL, \
        "Remove closed files that ended longer ago, days; 0 = keep them") \
    NUMBER(ALL, DYNAMIC, RECORDER, retention_bytes, RETENTION_BYTES, \
        0ULL, 0ULL, 1152921504606846976ULL, 1ULL, \
        "Remove the oldest closed files while the log is larger, bytes; 0 = keep them") \
    NUMBER(ALL, DYNAMIC, RECORDER, retention_files, RETENTION_FILES, \
        0ULL, 0ULL, 1000000ULL, 1ULL, \
        "Remove the oldest closed files while there are more than this; 0 = keep them") \
    CHOICE(ALL, DYNAMIC, RECORDER, retention_unshipped, RETENTION_UNSHIPPED, \
        0, ("KEEP", "REMOVE"), \
        "Closed files that a hub of `tacho ship` has not acknowledged: KEEP them until less " \
        "than 5 per cent of the file system is free, or REMOVE them as the others") \
    CHOICE(ALL, DYNAMIC, RECORDER, compression, COMPRESSION, \
        0, ("NONE", "ZSTD"), \
        "Compression of closed files: NONE, or ZSTD in the background, up to 1 TiB per file") \
    TEXT(ALL, DYNAMIC, ADAPTER, encryption_recipients_file, ENCRYPTION_RECIPIENTS_FILE, \
        "", \
        "File with the public keys (age1...) that closed files are encrypted to, read when this " \
        "is set; empty: they are not encrypted") \
    NUMBER(ALL, DYNAMIC, RECORDER, disk_warn_percent, DISK_WARN_PERCENT, \
        10ULL, 0ULL, 100ULL, 1ULL, \
        "Warn when less of the log's file system is free, per cent; 0 = never") \
    CHOICE(ALL, DYNAMIC, RECORDER, writer, WRITER, \
        0, ("EMBEDDED", "EXTERNAL"), \
        "Writer of the log: EMBEDDED (a thread of the server), or EXTERNAL (the process `tacho " \
        "recorder`, and the thread while that does not run)") \
    COMMAND(ALL, DYNAMIC, ADAPTER, flush_now, FLUSH_NOW, \
        "Set to 1: write all finished records now, not after " \
        TACHO_VARIABLE("flush_interval_ms")) \
    COMMAND(ALL, DYNAMIC, ADAPTER, rotate_now, ROTATE_NOW, \
        "Set to 1: begin a new file now") \
    NUMBER(ALL, DYNAMIC, RECORDER, max_statement_bytes, MAX_STATEMENT_BYTES, \
        0ULL, 0ULL, 4294967296ULL, 1ULL, \
        "Cut statements at this length, bytes; 0 = record them whole") \
    TEXT(ALL, DYNAMIC, ADAPTER, filter, FILTER, \
        "", \
        "Which statements are recorded, and how: rules in JSON; empty = all, whole") \
    TEXT(ALL, DYNAMIC, ADAPTER, filter_file, FILTER_FILE, \
        "", \
        "File with the rules of " \
        TACHO_VARIABLE("filter") \
        ", read when this is set") \
    SWITCH(ALL, DYNAMIC, RECORDER, digest, DIGEST, \
        1, \
        "Give each statement the hash of its shape, without literals") \
    CHOICE(ALL, DYNAMIC, RECORDER, redact, REDACT, \
        0, ("SECRETS", "LITERALS"), \
        "Removed from statements: SECRETS (passwords and keys) or LITERALS (every literal as " \
        "well)") \
    SWITCH(ALL, AT_START, ADAPTER, tables, TABLES, \
        0, \
        "Record which tables each statement touches; costs one event for each") \
    TEXT(MYSQL, AT_START, ADAPTER, event_classes, EVENT_CLASSES, \
        "", \
        "Further events to record: AUTHENTICATION, GLOBAL_VARIABLE, LIFECYCLE, MESSAGE, " \
        "STORED_PROGRAM, separated by commas, or ALL") \
    CHOICE(MYSQL, DYNAMIC, ADAPTER, traces, TRACES, \
        1, ("OFF", "ON", "CHANGES"), \
        "Subscribe to the server's telemetry traces, which only one component can: affected " \
        "rows, lock times, error messages, and the statements of stored programs. CHANGES: not " \
        "to those of a SELECT, which is cheaper")

/* clang-format on */

#endif /* TACHO_SETTINGS_H */
