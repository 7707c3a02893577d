// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "settings.h"

#include "tacho_embed.h"

namespace tacho {

namespace {

const char* const kOverflow[] = {"BLOCK", "TIMEOUT", "DROP", nullptr};
const char* const kTimestamps[] = {"SYSTEM", "UTC", nullptr};
const char* const kFormat[] = {"JSON",        "CSV",         "PERCONA_JSON",
                               "PERCONA_NEW", "PERCONA_OLD", nullptr};
const char* const kRedact[] = {"SECRETS", "LITERALS", nullptr};
const char* const kDurability[] = {"ASYNC", "GROUP", "SYNC", nullptr};
const char* const kWriter[] = {"EMBEDDED", "EXTERNAL", nullptr};
const char* const kCompression[] = {"NONE", "ZSTD", nullptr};
// As kTracesOff and so on have them.
const char* const kTraces[] = {"OFF", "ON", "CHANGES", nullptr};

constexpr Setting text(const char* name, int32_t number, const char* default_text,
                       const char* comment) {
    return {name, SettingKind::kText, number, comment, 0, 0, 0, default_text, nullptr};
}

constexpr Setting number(const char* name, int32_t number, uint64_t default_value, uint64_t min,
                         uint64_t max, const char* comment) {
    return {name, SettingKind::kNumber, number, comment, default_value, min, max, nullptr, nullptr};
}

constexpr Setting choice(const char* name, int32_t number, const char* const* choices,
                         const char* comment, uint64_t default_value = 0) {
    return {name, SettingKind::kChoice, number, comment, default_value, 0, 0, nullptr, choices};
}

constexpr Setting flag(const char* name, int32_t number, bool default_value, const char* comment) {
    return {name, SettingKind::kSwitch, number, comment, default_value, 0, 1, nullptr, nullptr};
}

constexpr Setting fixed(const char* name, int32_t number, const char* comment) {
    return {name, SettingKind::kFixed, number, comment, 0, 0, 1, nullptr, nullptr};
}

constexpr Setting command(const char* name, int32_t number, const char* comment) {
    return {name, SettingKind::kCommand, number, comment, 0, 0, 1, nullptr, nullptr};
}

} // namespace

const Setting kSettings[kSettingCount] = {
    text("directory", kSettingDirectory, "tacho",
         "Where the log files go; a relative path lies in the data directory"),
    text("arena_directory", kSettingArenaDirectory, "/dev/shm",
         "Where the arena goes: a file system in memory"),
    text(
        "signing_key_file", kSettingSigningKeyFile, "tacho-signing.key",
        "Where the key that signs the log lies, made if it is missing; a relative path lies in the "
        "data directory. Empty: the log is not sealed"),
    number("arena_bytes", kSettingArenaBytes, 64ULL << 20, 1ULL << 20, 1ULL << 36,
           "Size of the arena: what can wait for the log when it is slow"),
    fixed("tables", kSettingTables,
          "Record which tables each statement touches; costs one event for each"),
    text("event_classes", kSettingEventClasses, "",
         "Further events that are recorded: AUTHENTICATION, GLOBAL_VARIABLE, LIFECYCLE, MESSAGE, "
         "STORED_PROGRAM, with commas between them, or ALL"),
    // What the last server has left in another format comes before everything that moves files.
    choice("timestamps", TACHO_SETTING_TIMESTAMPS, kTimestamps,
           "Zone of the time stamps: SYSTEM (local time with offset) or UTC"),
    choice("format", TACHO_SETTING_FORMAT, kFormat,
           "JSON: JSON lines alone. CSV (as server_audit's), PERCONA_JSON, PERCONA_NEW, "
           "PERCONA_OLD (as audit_log's): each log file has another one in this format beside it"),
    choice("overflow", TACHO_SETTING_OVERFLOW, kOverflow,
           "When the arena is full: BLOCK waits (nothing is lost), TIMEOUT waits "
           "tacho.overflow_timeout_ms, DROP does not wait; losses are counted and logged"),
    number("overflow_timeout_ms", TACHO_SETTING_OVERFLOW_TIMEOUT_MS, 1000, 0, 3600000,
           "Longest wait with tacho.overflow=TIMEOUT, milliseconds"),
    number("flush_interval_ms", TACHO_SETTING_FLUSH_INTERVAL_MS, 100, 1, 60000,
           "Longest time a finished record stays unwritten, milliseconds"),
    number("flush_bytes", TACHO_SETTING_FLUSH_BYTES, 262144, 1, 1ULL << 30,
           "Write earlier when this much is waiting, bytes"),
    number("rotate_bytes", TACHO_SETTING_ROTATE_BYTES, 256ULL << 20, 0, 1ULL << 46,
           "Begin a new file at this size, bytes; 0 = never"),
    number("rotate_interval_s", TACHO_SETTING_ROTATE_INTERVAL_S, 0, 0, 366ULL * 86400,
           "Begin a new file when the current one is this old, seconds; 0 = never"),
    choice("durability", TACHO_SETTING_DURABILITY, kDurability,
           "When the log is on the device: ASYNC when the operating system thinks fit, GROUP every "
           "tacho.sync_interval_ms, SYNC before a statement begins"),
    number("sync_interval_ms", TACHO_SETTING_SYNC_INTERVAL_MS, 1000, 1, 3600000,
           "How often the log goes to the device with tacho.durability=GROUP or SYNC, "
           "milliseconds"),
    number("retention_days", TACHO_SETTING_RETENTION_DAYS, 183, 0, 36525,
           "Remove closed files that ended longer ago, days; 0 = keep them"),
    number("retention_bytes", TACHO_SETTING_RETENTION_BYTES, 0, 0, 1ULL << 60,
           "Remove the oldest closed files while the log is larger, bytes; 0 = keep them"),
    number("retention_files", TACHO_SETTING_RETENTION_FILES, 0, 0, 1000000,
           "Remove the oldest closed files while there are more than this; 0 = keep them"),
    choice("compression", TACHO_SETTING_COMPRESSION, kCompression,
           "What becomes of closed files: NONE, or ZSTD (compressed in the background)"),
    number("disk_warn_percent", TACHO_SETTING_DISK_WARN_PERCENT, 10, 0, 100,
           "Warn when less of the log's file system is free, per cent; 0 = never"),
    number("max_statement_bytes", TACHO_SETTING_MAX_STATEMENT_BYTES, 0, 0, 1ULL << 32,
           "Cut statements at this length, bytes; 0 = record them whole"),
    number("checkpoint_interval_s", TACHO_SETTING_CHECKPOINT_INTERVAL_S, 60, 0, 86400,
           "How often the log is signed, seconds; 0 = only at rotation and stop"),
    flag("digest", TACHO_SETTING_DIGEST, true,
         "Give each statement the hash of its shape, without literals"),
    choice("redact", TACHO_SETTING_REDACT, kRedact,
           "What is taken out of statements: SECRETS (passwords and keys) or LITERALS (every "
           "literal too)"),
    choice("writer", TACHO_SETTING_WRITER, kWriter,
           "Who writes the log: EMBEDDED (a thread of the server), or EXTERNAL (the process `tacho "
           "recorder`; the thread, while there is none)"),
    choice(
        "traces", kSettingTraces, kTraces,
        "Take the server's telemetry traces, of which it has one taker: changed rows, lock times, "
        "messages of errors, and the statements of stored programs; CHANGES: not those of a "
        "SELECT, which is cheaper",
        kTracesOn),
    command("rotate_now", kSettingRotateNow, "Set to 1: begin a new file now"),
    command("flush_now", kSettingFlushNow,
            "Set to 1: write what has ended now, not after tacho.flush_interval_ms"),
    flag("logging", TACHO_SETTING_LOGGING, true, "Record or not"),
};

size_t setting_index(int32_t number) noexcept {
    size_t index = 0;
    while (index + 1 < kSettingCount && kSettings[index].number != number) {
        ++index;
    }
    return index;
}

} // namespace tacho
