// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// System and status variables. An update function runs with LOCK_global_system_variables held:
// it stores a value and wakes the writer, and never waits.
#include "../common/digits.h"
#include "../common/retention.h"
#include "../common/text_settings.h"
#include "adapter.h"
#include "text_variables.h"
#include "who.h"

#include <climits>
#include <cstdio>
#include <cstring>

#include <typelib.h>

namespace tacho {

namespace {

char* v_directory;
char* v_arena_directory;
char* v_signing_key_file;
unsigned long long v_arena_bytes;
char v_logging;
unsigned long long v_flush_interval_ms;
unsigned long long v_flush_bytes;
unsigned long v_overflow;
unsigned long long v_overflow_timeout_ms;
unsigned long v_timestamps;
unsigned long v_format;
unsigned long long v_rotate_bytes;
unsigned long long v_rotate_interval_s;
unsigned long long v_retention_days;
unsigned long long v_retention_bytes;
unsigned long long v_retention_files;
unsigned long v_compression;
unsigned long long v_disk_warn_percent;
char v_rotate_now;
char v_flush_now;
unsigned long long v_max_statement_bytes;
unsigned long long v_checkpoint_interval_s;
char v_tables;
char v_digest;
unsigned long v_redact;
unsigned long v_durability;
unsigned long v_writer;
unsigned long long v_sync_interval_ms;

char g_directory_shown[PATH_MAX];
char g_signing_key_file_shown[PATH_MAX];

const char* g_overflow_names[] = {"BLOCK", "TIMEOUT", "DROP", nullptr};
TYPELIB g_overflow_lib = {3, "overflow", g_overflow_names, nullptr};
const char* g_timestamps_names[] = {"SYSTEM", "UTC", nullptr};
TYPELIB g_timestamps_lib = {2, "timestamps", g_timestamps_names, nullptr};
const char* g_format_names[] = {"JSON",        "CSV",         "PERCONA_JSON",
                                "PERCONA_NEW", "PERCONA_OLD", nullptr};
TYPELIB g_format_lib = {5, "format", g_format_names, nullptr};
const char* g_redact_names[] = {"SECRETS", "LITERALS", nullptr};
TYPELIB g_redact_lib = {2, "redact", g_redact_names, nullptr};
const char* g_durability_names[] = {"ASYNC", "GROUP", "SYNC", nullptr};
TYPELIB g_durability_lib = {3, "durability", g_durability_names, nullptr};
const char* g_writer_names[] = {"EMBEDDED", "EXTERNAL", nullptr};
TYPELIB g_writer_lib = {2, "writer", g_writer_names, nullptr};
const char* g_compression_names[] = {"NONE", "ZSTD", nullptr};
TYPELIB g_compression_lib = {2, "compression", g_compression_names, nullptr};

void tell(MYSQL_THD thd, const char* variable, const char* old_value,
          const char* new_value) noexcept {
    const tacho_who who = who_of(thd);
    tacho_embed_note_config(g_recorder, &who, variable, old_value, new_value);
}

void note(MYSQL_THD thd, const char* variable, const char* old_value,
          const char* new_value) noexcept {
    if (g_recorder != nullptr && strcmp(old_value, new_value) != 0) {
        tell(thd, variable, old_value, new_value);
    }
}

void note_number(MYSQL_THD thd, const char* variable, unsigned long long before,
                 unsigned long long after) noexcept {
    const Digits old_value(before);
    const Digits new_value(after);
    note(thd, variable, old_value.text, new_value.text);
}

void set(int32_t setting, unsigned long long value) noexcept {
    if (g_recorder != nullptr) {
        tacho_embed_set(g_recorder, setting, value);
    }
}

// By tacho_setting.
const char* const kNames[] = {"tacho_logging",
                              "tacho_overflow",
                              "tacho_overflow_timeout_ms",
                              "tacho_flush_interval_ms",
                              "tacho_flush_bytes",
                              "tacho_rotate_bytes",
                              "tacho_timestamps",
                              "tacho_max_statement_bytes",
                              "tacho_checkpoint_interval_s",
                              "tacho_digest",
                              "tacho_redact",
                              "tacho_rotate_interval_s",
                              "tacho_durability",
                              "tacho_sync_interval_ms",
                              "tacho_retention_days",
                              "tacho_retention_bytes",
                              "tacho_compression",
                              "tacho_disk_warn_percent",
                              "tacho_format",
                              "tacho_writer",
                              "tacho_retention_files"};

// As the server declares numbers.
extern DECLARE_MYSQL_SYSVAR_SIMPLE(number, unsigned long long);
using Number = decltype(MYSQL_SYSVAR_NAME(number));

// The server would bend what is out of range to fit: -1 to 0, which is "never" or "unlimited" for
// many. It has the message for what is refused.
int check_number(MYSQL_THD, st_mysql_sys_var* self, void* save, st_mysql_value* value) noexcept {
    const auto* range = reinterpret_cast<const Number*>(self);
    long long number = 0;
    if (value->val_int(value, &number) != 0) {
        return 1;
    }
    const bool negative = number < 0 && value->is_unsigned(value) == 0;
    const auto wanted = static_cast<unsigned long long>(number);
    if (negative || wanted < range->min_val || wanted > range->max_val) {
        return 1;
    }
    *static_cast<unsigned long long*>(save) = wanted;
    return 0;
}

template <int32_t Setting>
void update_number(MYSQL_THD thd, st_mysql_sys_var*, void* variable, const void* value) noexcept {
    auto* current = static_cast<unsigned long long*>(variable);
    const auto wanted = *static_cast<const unsigned long long*>(value);
    note_number(thd, kNames[Setting], *current, wanted);
    *current = wanted;
    set(Setting, wanted);
}

template <int32_t Setting>
void update_retention(MYSQL_THD thd, st_mysql_sys_var* self, void* variable,
                      const void* value) noexcept {
    const auto before = *static_cast<unsigned long long*>(variable);
    const auto wanted = *static_cast<const unsigned long long*>(value);
    update_number<Setting>(thd, self, variable, value);
    if (g_recorder == nullptr || !confirms_removal(Setting, before, wanted)) {
        return;
    }
    if (wanted == before) {
        // It changes no setting, and removes files: a line says who wanted that.
        const Digits value_text(wanted);
        tell(thd, kNames[Setting], value_text.text, value_text.text);
    }
    tacho_embed_retain(g_recorder, Setting);
}

template <int32_t Setting, const char** Names>
void update_enum(MYSQL_THD thd, st_mysql_sys_var*, void* variable, const void* value) noexcept {
    auto* current = static_cast<unsigned long*>(variable);
    const auto wanted = *static_cast<const unsigned long*>(value);
    note(thd, kNames[Setting], Names[*current], Names[wanted]);
    *current = wanted;
    set(Setting, wanted);
}

template <int32_t Setting>
void update_switch(MYSQL_THD thd, st_mysql_sys_var*, void* variable, const void* value) noexcept {
    auto* current = static_cast<char*>(variable);
    const char wanted = *static_cast<const char*>(value);
    note(thd, kNames[Setting], *current != 0 ? "ON" : "OFF", wanted != 0 ? "ON" : "OFF");
    *current = wanted;
    set(Setting, wanted != 0 ? 1 : 0);
}

// Commands, not states: they always read OFF.
void update_rotate_now(MYSQL_THD, st_mysql_sys_var*, void*, const void* value) noexcept {
    if (*static_cast<const char*>(value) != 0 && g_recorder != nullptr) {
        tacho_embed_rotate(g_recorder);
    }
}

void update_flush_now(MYSQL_THD, st_mysql_sys_var*, void*, const void* value) noexcept {
    if (*static_cast<const char*>(value) != 0 && g_recorder != nullptr) {
        tacho_embed_flush(g_recorder);
    }
}

MYSQL_SYSVAR_STR(directory, v_directory, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                 "Where the log files go; a relative path lies in the data directory", nullptr,
                 nullptr, "tacho");
MYSQL_SYSVAR_STR(arena_directory, v_arena_directory, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                 "Where the arena goes: a file system in memory", nullptr, nullptr, "/dev/shm");
MYSQL_SYSVAR_STR(
    signing_key_file, v_signing_key_file, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
    "Where the key that signs the log lies, made if it is missing; a relative path lies "
    "in the data directory. Empty: the log is not sealed",
    nullptr, nullptr, "tacho-signing.key");
MYSQL_SYSVAR_ULONGLONG(checkpoint_interval_s, v_checkpoint_interval_s, PLUGIN_VAR_RQCMDARG,
                       "How often the log is signed, seconds; 0 = only at rotation and stop",
                       check_number, update_number<TACHO_SETTING_CHECKPOINT_INTERVAL_S>, 60, 0,
                       86400, 1);
MYSQL_SYSVAR_ULONGLONG(arena_bytes, v_arena_bytes, PLUGIN_VAR_READONLY | PLUGIN_VAR_RQCMDARG,
                       "Size of the arena: what can wait for the log when it is slow", nullptr,
                       nullptr, 64ULL << 20, 1ULL << 20, 1ULL << 36, 4096);
MYSQL_SYSVAR_BOOL(tables, v_tables, PLUGIN_VAR_READONLY | PLUGIN_VAR_OPCMDARG,
                  "Record which tables each statement touches; costs one event for each", nullptr,
                  nullptr, 0);
MYSQL_SYSVAR_BOOL(logging, v_logging, PLUGIN_VAR_OPCMDARG, "Record or not", nullptr,
                  update_switch<TACHO_SETTING_LOGGING>, 1);
MYSQL_SYSVAR_ULONGLONG(flush_interval_ms, v_flush_interval_ms, PLUGIN_VAR_RQCMDARG,
                       "Longest time a finished record stays unwritten, milliseconds", check_number,
                       update_number<TACHO_SETTING_FLUSH_INTERVAL_MS>, 100, 1, 60000, 1);
MYSQL_SYSVAR_ULONGLONG(flush_bytes, v_flush_bytes, PLUGIN_VAR_RQCMDARG,
                       "Write earlier when this much is waiting, bytes", check_number,
                       update_number<TACHO_SETTING_FLUSH_BYTES>, 262144, 1, 1ULL << 30, 1);
MYSQL_SYSVAR_ENUM(overflow, v_overflow, PLUGIN_VAR_RQCMDARG,
                  "When the arena is full: BLOCK waits (nothing is lost), TIMEOUT waits "
                  "tacho_overflow_timeout_ms, DROP does not wait; losses are counted and logged",
                  nullptr, (update_enum<TACHO_SETTING_OVERFLOW, g_overflow_names>), 0,
                  &g_overflow_lib);
MYSQL_SYSVAR_ULONGLONG(overflow_timeout_ms, v_overflow_timeout_ms, PLUGIN_VAR_RQCMDARG,
                       "Longest wait with tacho_overflow=TIMEOUT, milliseconds", check_number,
                       update_number<TACHO_SETTING_OVERFLOW_TIMEOUT_MS>, 1000, 0, 3600000, 1);
MYSQL_SYSVAR_ENUM(durability, v_durability, PLUGIN_VAR_RQCMDARG,
                  "When the log is on the device: ASYNC when the operating system thinks fit, "
                  "GROUP every tacho_sync_interval_ms, SYNC before a statement begins",
                  nullptr, (update_enum<TACHO_SETTING_DURABILITY, g_durability_names>), 0,
                  &g_durability_lib);
MYSQL_SYSVAR_ULONGLONG(sync_interval_ms, v_sync_interval_ms, PLUGIN_VAR_RQCMDARG,
                       "How often the log goes to the device with tacho_durability=GROUP or SYNC, "
                       "milliseconds",
                       check_number, update_number<TACHO_SETTING_SYNC_INTERVAL_MS>, 1000, 1,
                       3600000, 1);
MYSQL_SYSVAR_ENUM(timestamps, v_timestamps, PLUGIN_VAR_RQCMDARG,
                  "Zone of the time stamps: SYSTEM (local time with offset) or UTC", nullptr,
                  (update_enum<TACHO_SETTING_TIMESTAMPS, g_timestamps_names>), 0,
                  &g_timestamps_lib);
MYSQL_SYSVAR_ENUM(format, v_format, PLUGIN_VAR_RQCMDARG,
                  "JSON: JSON lines alone. CSV (as server_audit's), PERCONA_JSON, PERCONA_NEW, "
                  "PERCONA_OLD (as audit_log's): each log file has another one in this format "
                  "beside it",
                  nullptr, (update_enum<TACHO_SETTING_FORMAT, g_format_names>), 0, &g_format_lib);
MYSQL_SYSVAR_ULONGLONG(rotate_bytes, v_rotate_bytes, PLUGIN_VAR_RQCMDARG,
                       "Begin a new file at this size, bytes; 0 = never", check_number,
                       update_number<TACHO_SETTING_ROTATE_BYTES>, 256ULL << 20, 0, 1ULL << 46, 1);
MYSQL_SYSVAR_ULONGLONG(rotate_interval_s, v_rotate_interval_s, PLUGIN_VAR_RQCMDARG,
                       "Begin a new file when the current one is this old, seconds; 0 = never",
                       check_number, update_number<TACHO_SETTING_ROTATE_INTERVAL_S>, 0, 0,
                       366ULL * 86400, 1);
MYSQL_SYSVAR_ULONGLONG(retention_days, v_retention_days, PLUGIN_VAR_RQCMDARG,
                       "Remove closed files that ended longer ago, days; 0 = keep them",
                       check_number, update_retention<TACHO_SETTING_RETENTION_DAYS>, 183, 0, 36525,
                       1);
MYSQL_SYSVAR_ULONGLONG(retention_bytes, v_retention_bytes, PLUGIN_VAR_RQCMDARG,
                       "Remove the oldest closed files while the log is larger, bytes; 0 = keep "
                       "them",
                       check_number, update_number<TACHO_SETTING_RETENTION_BYTES>, 0, 0, 1ULL << 60,
                       1);
MYSQL_SYSVAR_ULONGLONG(retention_files, v_retention_files, PLUGIN_VAR_RQCMDARG,
                       "Remove the oldest closed files while there are more than this; 0 = keep "
                       "them",
                       check_number, update_retention<TACHO_SETTING_RETENTION_FILES>, 0, 0, 1000000,
                       1);
MYSQL_SYSVAR_ENUM(compression, v_compression, PLUGIN_VAR_RQCMDARG,
                  "What becomes of closed files: NONE, or ZSTD (compressed in the background)",
                  nullptr, (update_enum<TACHO_SETTING_COMPRESSION, g_compression_names>), 0,
                  &g_compression_lib);
MYSQL_SYSVAR_ULONGLONG(disk_warn_percent, v_disk_warn_percent, PLUGIN_VAR_RQCMDARG,
                       "Warn when less of the log's file system is free, per cent; 0 = never",
                       check_number, update_number<TACHO_SETTING_DISK_WARN_PERCENT>, 10, 0, 100, 1);
MYSQL_SYSVAR_ENUM(writer, v_writer, PLUGIN_VAR_RQCMDARG,
                  "Who writes the log: EMBEDDED (a thread of the server), or EXTERNAL (the process "
                  "`tacho recorder`; the thread, while there is none)",
                  nullptr, (update_enum<TACHO_SETTING_WRITER, g_writer_names>), 0, &g_writer_lib);
MYSQL_SYSVAR_BOOL(rotate_now, v_rotate_now, PLUGIN_VAR_OPCMDARG, "Set to 1: begin a new file now",
                  nullptr, update_rotate_now, 0);
MYSQL_SYSVAR_BOOL(flush_now, v_flush_now, PLUGIN_VAR_OPCMDARG,
                  "Set to 1: write what has ended now, not after tacho_flush_interval_ms", nullptr,
                  update_flush_now, 0);
MYSQL_SYSVAR_ULONGLONG(max_statement_bytes, v_max_statement_bytes, PLUGIN_VAR_RQCMDARG,
                       "Cut statements at this length, bytes; 0 = record them whole", check_number,
                       update_number<TACHO_SETTING_MAX_STATEMENT_BYTES>, 0, 0, 1ULL << 32, 1);

MYSQL_SYSVAR_BOOL(digest, v_digest, PLUGIN_VAR_OPCMDARG,
                  "Give each statement the hash of its shape, without literals", nullptr,
                  update_switch<TACHO_SETTING_DIGEST>, 1);
MYSQL_SYSVAR_ENUM(redact, v_redact, PLUGIN_VAR_RQCMDARG,
                  "What is taken out of statements: SECRETS (passwords and keys) or LITERALS "
                  "(every literal too)",
                  nullptr, (update_enum<TACHO_SETTING_REDACT, g_redact_names>), 0, &g_redact_lib);

// A figure for SHOW STATUS. The server gives a buffer for the value.
template <uint64_t tacho_embed_status::*Member>
int show_number(MYSQL_THD, st_mysql_show_var* out, void* buffer, system_status_var*,
                enum_var_type) noexcept {
    tacho_embed_status status = {};
    if (g_recorder != nullptr) {
        tacho_embed_read_status(g_recorder, &status);
    }
    auto* value = static_cast<unsigned long long*>(buffer);
    *value = status.*Member;
    out->type = SHOW_ULONGLONG;
    out->value = value;
    return 0;
}

template <int32_t Which>
int show_text(MYSQL_THD, st_mysql_show_var* out, void* buffer, system_status_var*,
              enum_var_type) noexcept {
    auto* text = static_cast<char*>(buffer);
    text[0] = '\0';
    if (g_recorder != nullptr) {
        tacho_embed_read_text(g_recorder, Which, text, SHOW_VAR_FUNC_BUFF_SIZE);
    }
    out->type = SHOW_CHAR;
    out->value = text;
    return 0;
}

void* function(mysql_show_var_func f) noexcept {
    return reinterpret_cast<void*>(f);
}

} // namespace

const char* variable_directory() noexcept {
    return v_directory != nullptr && v_directory[0] != '\0' ? v_directory : "tacho";
}

const char* variable_arena_directory() noexcept {
    return v_arena_directory != nullptr ? v_arena_directory : "/dev/shm";
}

const char* variable_signing_key_file() noexcept {
    return v_signing_key_file != nullptr ? v_signing_key_file : "";
}

unsigned long long variable_arena_bytes() noexcept {
    return v_arena_bytes;
}

bool variable_tables() noexcept {
    return v_tables != 0;
}

bool variable_external() noexcept {
    return v_writer != 0;
}

void show_signing_key_file(const char* path) noexcept {
    snprintf(g_signing_key_file_shown, sizeof(g_signing_key_file_shown), "%s", path);
    v_signing_key_file = g_signing_key_file_shown;
}

void show_directory(const char* path) noexcept {
    snprintf(g_directory_shown, sizeof(g_directory_shown), "%s", path);
    v_directory = g_directory_shown;
}

void apply_variables(const tacho_embed* recorder) noexcept {
    // What the last server has left in another format comes before everything that moves files.
    tacho_embed_set(recorder, TACHO_SETTING_TIMESTAMPS, v_timestamps);
    tacho_embed_set(recorder, TACHO_SETTING_FORMAT, v_format);
    tacho_embed_set(recorder, TACHO_SETTING_OVERFLOW, v_overflow);
    tacho_embed_set(recorder, TACHO_SETTING_OVERFLOW_TIMEOUT_MS, v_overflow_timeout_ms);
    tacho_embed_set(recorder, TACHO_SETTING_FLUSH_INTERVAL_MS, v_flush_interval_ms);
    tacho_embed_set(recorder, TACHO_SETTING_FLUSH_BYTES, v_flush_bytes);
    tacho_embed_set(recorder, TACHO_SETTING_ROTATE_BYTES, v_rotate_bytes);
    tacho_embed_set(recorder, TACHO_SETTING_ROTATE_INTERVAL_S, v_rotate_interval_s);
    tacho_embed_set(recorder, TACHO_SETTING_DURABILITY, v_durability);
    tacho_embed_set(recorder, TACHO_SETTING_SYNC_INTERVAL_MS, v_sync_interval_ms);
    tacho_embed_set(recorder, TACHO_SETTING_RETENTION_DAYS, v_retention_days);
    tacho_embed_set(recorder, TACHO_SETTING_RETENTION_BYTES, v_retention_bytes);
    tacho_embed_set(recorder, TACHO_SETTING_RETENTION_FILES, v_retention_files);
    tacho_embed_set(recorder, TACHO_SETTING_COMPRESSION, v_compression);
    tacho_embed_set(recorder, TACHO_SETTING_DISK_WARN_PERCENT, v_disk_warn_percent);
    tacho_embed_set(recorder, TACHO_SETTING_MAX_STATEMENT_BYTES, v_max_statement_bytes);
    apply_texts(recorder);
    tacho_embed_set(recorder, TACHO_SETTING_CHECKPOINT_INTERVAL_S, v_checkpoint_interval_s);
    tacho_embed_set(recorder, TACHO_SETTING_DIGEST, v_digest != 0 ? 1 : 0);
    tacho_embed_set(recorder, TACHO_SETTING_REDACT, v_redact);
    tacho_embed_set(recorder, TACHO_SETTING_WRITER, v_writer);
    tacho_embed_set(recorder, TACHO_SETTING_LOGGING, v_logging != 0 ? 1 : 0);
}

st_mysql_sys_var* g_system_variables[] = {
    MYSQL_SYSVAR(logging),
    MYSQL_SYSVAR(directory),
    MYSQL_SYSVAR(arena_directory),
    MYSQL_SYSVAR(arena_bytes),
    MYSQL_SYSVAR(flush_interval_ms),
    MYSQL_SYSVAR(flush_bytes),
    MYSQL_SYSVAR(overflow),
    MYSQL_SYSVAR(overflow_timeout_ms),
    MYSQL_SYSVAR(durability),
    MYSQL_SYSVAR(sync_interval_ms),
    MYSQL_SYSVAR(timestamps),
    MYSQL_SYSVAR(format),
    MYSQL_SYSVAR(rotate_bytes),
    MYSQL_SYSVAR(rotate_interval_s),
    MYSQL_SYSVAR(retention_days),
    MYSQL_SYSVAR(retention_bytes),
    MYSQL_SYSVAR(retention_files),
    MYSQL_SYSVAR(compression),
    MYSQL_SYSVAR(disk_warn_percent),
    MYSQL_SYSVAR(writer),
    MYSQL_SYSVAR(rotate_now),
    MYSQL_SYSVAR(flush_now),
    MYSQL_SYSVAR(max_statement_bytes),
    MYSQL_SYSVAR(digest),
    MYSQL_SYSVAR(redact),
    MYSQL_SYSVAR(tables),
    kFilterVariable,
    kFilterFileVariable,
    kEncryptionRecipientsFileVariable,
    MYSQL_SYSVAR(signing_key_file),
    MYSQL_SYSVAR(checkpoint_interval_s),
    nullptr,
};

using Status = tacho_embed_status;
st_mysql_show_var g_status_variables[] = {
    {"Tacho_records_written", function(show_number<&Status::records_written>), SHOW_SIMPLE_FUNC},
    {"Tacho_bytes_written", function(show_number<&Status::bytes_written>), SHOW_SIMPLE_FUNC},
    {"Tacho_records_filtered", function(show_number<&Status::records_filtered>), SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost", function(show_number<&Status::records_lost>), SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost_timeout", function(show_number<&Status::records_lost_timeout>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost_dropped", function(show_number<&Status::records_lost_dropped>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost_corrupt", function(show_number<&Status::records_lost_corrupt>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_records_lost_killed", function(show_number<&Status::records_lost_killed>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_blocked_count", function(show_number<&Status::blocked_count>), SHOW_SIMPLE_FUNC},
    {"Tacho_blocked_time_us", function(show_number<&Status::blocked_time_us>), SHOW_SIMPLE_FUNC},
    {"Tacho_arena_bytes_used", function(show_number<&Status::arena_bytes_used>), SHOW_SIMPLE_FUNC},
    {"Tacho_write_errors", function(show_number<&Status::write_errors>), SHOW_SIMPLE_FUNC},
    {"Tacho_sync_count", function(show_number<&Status::sync_count>), SHOW_SIMPLE_FUNC},
    {"Tacho_sync_time_us", function(show_number<&Status::sync_time_us>), SHOW_SIMPLE_FUNC},
    {"Tacho_sync_given_up", function(show_number<&Status::sync_given_up>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_removed", function(show_number<&Status::files_removed>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_compressed", function(show_number<&Status::files_compressed>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_encrypted", function(show_number<&Status::files_encrypted>), SHOW_SIMPLE_FUNC},
    {"Tacho_files", function(show_number<&Status::files>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_bytes", function(show_number<&Status::files_bytes>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_days", function(show_number<&Status::files_days>), SHOW_SIMPLE_FUNC},
    {"Tacho_files_to_pack", function(show_number<&Status::files_to_pack>), SHOW_SIMPLE_FUNC},
    {"Tacho_oldest_file", function(show_text<TACHO_TEXT_OLDEST_FILE>), SHOW_SIMPLE_FUNC},
    {"Tacho_oldest_time", function(show_text<TACHO_TEXT_OLDEST_TIME>), SHOW_SIMPLE_FUNC},
    {"Tacho_checkpoint_time", function(show_text<TACHO_TEXT_CHECKPOINT_TIME>), SHOW_SIMPLE_FUNC},
    {"Tacho_rotate_due_time", function(show_text<TACHO_TEXT_ROTATE_DUE_TIME>), SHOW_SIMPLE_FUNC},
    {"Tacho_format_behind_bytes", function(show_number<&Status::format_behind_bytes>),
     SHOW_SIMPLE_FUNC},
    {"Tacho_disk_free_bytes", function(show_number<&Status::disk_free_bytes>), SHOW_SIMPLE_FUNC},
    {"Tacho_sessions", function(show_number<&Status::sessions>), SHOW_SIMPLE_FUNC},
    {"Tacho_sessions_max", function(show_number<&Status::sessions_max>), SHOW_SIMPLE_FUNC},
    {"Tacho_last_error", function(show_text<TACHO_TEXT_LAST_ERROR>), SHOW_SIMPLE_FUNC},
    {"Tacho_current_file", function(show_text<TACHO_TEXT_CURRENT_FILE>), SHOW_SIMPLE_FUNC},
    {"Tacho_filter_error", function(show_text<TACHO_TEXT_FILTER_ERROR>), SHOW_SIMPLE_FUNC},
    {"Tacho_encryption_error", function(show_text<TACHO_TEXT_ENCRYPTION_ERROR>), SHOW_SIMPLE_FUNC},
    {"Tacho_filter_rules", function(show_number<&Status::filter_rules>), SHOW_SIMPLE_FUNC},
    {"Tacho_writer", function(show_text<TACHO_TEXT_WRITER>), SHOW_SIMPLE_FUNC},
    {"Tacho_arena_file", function(show_text<TACHO_TEXT_ARENA>), SHOW_SIMPLE_FUNC},
    {nullptr, nullptr, SHOW_UNDEF},
};

} // namespace tacho
