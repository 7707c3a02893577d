/* Zone: cold. The C interface of the embedded recorder (crates/embed), for the adapters.
 *
 * Written by hand and checked twice: the assertions at the end are compiled into every adapter,
 * and crates/embed/src/header.rs compares every number in this file with the Rust side.
 *
 * Called from plugin initialisation, system-variable updates, SHOW STATUS and plugin
 * de-initialisation; never from an event callback. No function throws or lets a panic out.
 */
#ifndef TACHO_EMBED_H
#define TACHO_EMBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tacho_probe.h"
#include "tacho_settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A recorder: an arena, a log directory and a writer thread. */
typedef struct tacho_embed tacho_embed;

/* Configuration of a recorder. All strings are NUL-terminated and only read. */
typedef struct tacho_embed_config {
    const char* log_directory;    /* created if it does not exist */
    const char* arena_directory;  /* usually /dev/shm */
    const char* signing_key_file; /* created if it does not exist; "": the log is not sealed */
    const char* server;           /* "MariaDB 10.11.19-MariaDB ..." */
    uint64_t arena_bytes;
    const volatile unsigned char* ending; /* not 0 when the server shuts down; may be null */
    bool tables;                          /* the adapter sends the tables of statements */
    bool program;                         /* the adapter knows the program name of a connection */
    bool external;                        /* a recorder outside the server should write */
    bool blocks;                          /* the server can block a statement */
} tacho_embed_config;

/* Figures for SHOW STATUS. */
typedef struct tacho_embed_status {
    uint64_t records_written;
    uint64_t bytes_written;
    uint64_t records_filtered;
    uint64_t records_lost;
    uint64_t records_lost_timeout;
    uint64_t records_lost_dropped;
    uint64_t records_lost_corrupt;
    uint64_t records_lost_killed;
    uint64_t blocked_count;
    uint64_t blocked_time_us;
    uint64_t arena_bytes_used;
    uint64_t write_errors;
    uint64_t filter_rules;
    uint64_t sync_count;
    uint64_t sync_time_us;
    uint64_t sync_given_up;
    uint64_t files_removed;
    uint64_t files_compressed;
    uint64_t disk_free_bytes;
    uint64_t sessions;     /* that have a slot in the arena */
    uint64_t sessions_max; /* slots */
    uint64_t files_encrypted;
    uint64_t files;               /* log files, in any form */
    uint64_t files_bytes;         /* with their sidecars and renditions */
    uint64_t files_days;          /* age of the oldest one */
    uint64_t files_to_pack;       /* closed files that wait to be compressed or encrypted */
    uint64_t format_behind_bytes; /* of the log, not in the other format yet */
    uint64_t statements_blocked;  /* not executed because of a rule */
    uint64_t statements_rewritten;
    uint64_t rewrite_rules;   /* in force */
    uint64_t rewrites_failed; /* a rule matched, but there was no memory for the new text */
} tacho_embed_status;

/* Texts for SHOW STATUS. */
enum tacho_text {
    TACHO_TEXT_LAST_ERROR = 0,
    TACHO_TEXT_CURRENT_FILE = 1,
    TACHO_TEXT_ARENA = 2,
    TACHO_TEXT_WRITER = 3, /* "EMBEDDED", or "EXTERNAL" and the process id of the recorder */
    TACHO_TEXT_OLDEST_FILE = 4,
    TACHO_TEXT_OLDEST_TIME = 5,     /* times are formatted as in the log; empty: none */
    TACHO_TEXT_CHECKPOINT_TIME = 6, /* when the seal was last signed */
    TACHO_TEXT_ROTATE_DUE_TIME = 7, /* when a new file is begun because of its age */
    TACHO_TEXT_FILTER_ERROR = 8,    /* see tacho_fault; empty: nothing is wrong */
    TACHO_TEXT_ENCRYPTION_ERROR = 9,
    TACHO_TEXT_REWRITE_ERROR = 10
};

/* Starts recording: recovers what a crash left, creates the arena, starts the writer. Settings are
 * at their defaults and logging is off: set them, then turn logging on. On failure: null, with
 * cause and advice in `error` (terminated, truncated). */
tacho_embed* tacho_embed_start(const tacho_embed_config* config, char* error, size_t error_bytes);

/* Name of a sql_command number. Before logging is turned on. */
void tacho_embed_set_name(const tacho_embed* recorder, uint32_t number, const char* name);

/* The argument of the probe functions. Valid until tacho_embed_stop. */
const tacho_probe* tacho_embed_probe(const tacho_embed* recorder);

/* Changes a setting (enum tacho_setting) that the recorder owns: 0 or 1 for a switch, the number of
 * a choice. All other settings are ignored. */
void tacho_embed_set(const tacho_embed* recorder, int32_t setting, uint64_t value);

/* The account that changes a setting. Terminated strings; null or empty: unknown. */
typedef struct tacho_who {
    uint64_t conn; /* 0: the server itself */
    const char* user;
    const char* priv_user;
    const char* host;
    const char* ip;
} tacho_who;

/* Records in the log that a setting was changed: by whom, variable, old and new value. */
void tacho_embed_note_config(const tacho_embed* recorder, const tacho_who* who,
                             const char* variable, const char* old_value, const char* new_value);

/* A part of the configuration that the recorder can run without. */
enum tacho_fault {
    TACHO_FAULT_FILTER = 0,     /* everything is recorded */
    TACHO_FAULT_ENCRYPTION = 1, /* closed files are not encrypted */
    TACHO_FAULT_REWRITE = 2     /* no statement is rewritten */
};

/* Puts the error of such a part into SHOW STATUS and the log. A value that takes effect later
 * clears it. */
void tacho_embed_fault(const tacho_embed* recorder, int32_t fault, const char* text);

/* See tacho_embed_filter. */
enum tacho_filter_flag {
    TACHO_FILTER_FILE = 1, /* `text` is the path of the file with the filter */
    TACHO_FILTER_APPLY = 2 /* it takes effect; otherwise it is only checked */
};

/* Which statements are recorded, in JSON; empty: all. After tacho_embed_set_name. `who`: the
 * account that sets the filter; null: the server's own start. `variable` is the name of the setting
 * in the log. On failure: false, with position and cause in `error` (terminated, truncated); the
 * previous filter stays in effect. */
bool tacho_embed_filter(const tacho_embed* recorder, const tacho_who* who, const char* variable,
                        const char* text, uint32_t flags, char* error, size_t error_bytes);

/* A rewrite rule. All texts are UTF-8. */
typedef struct tacho_rewrite_rule {
    uint64_t id; /* recorded with each statement that it rewrites */
    tacho_bytes pattern;
    tacho_bytes pattern_database; /* the session's; null data: any */
    tacho_bytes replacement;
} tacho_rewrite_rule;

/* Rules that will replace those in force. Used by one thread at a time. */
typedef struct tacho_rewrite_list tacho_rewrite_list;

/* An empty list, which must be passed to tacho_embed_rewrite_apply or tacho_embed_rewrite_cancel.
 * Null only after an internal error. Needs no recorder. */
tacho_rewrite_list* tacho_embed_rewrite_begin(void);

/* Adds a rule. Returns 0, or the length of the error in `message` (UTF-8, terminated, truncated):
 * the list is then unchanged. */
size_t tacho_embed_rewrite_add(tacho_rewrite_list* list, const tacho_rewrite_rule* rule,
                               char* message, size_t message_bytes);

/* The errors of the rules that were not added, by their ids: a JSON object with the first 100,000
 * (UTF-8, terminated, truncated). Returns its length. */
size_t tacho_embed_rewrite_faults(const tacho_rewrite_list* list, char* text, size_t bytes);

/* A pattern without its literals, and its digest, as the log has them for the statements that it
 * matches: terminated, truncated. Returns the length; 0: the pattern is wrong. */
size_t tacho_embed_rewrite_normalized(tacho_bytes pattern, char* text, size_t bytes);
size_t tacho_embed_rewrite_digest(tacho_bytes pattern, char* text, size_t bytes);

/* A number for a load that is about to read its rules: not 0, and higher than all before. */
uint64_t tacho_embed_rewrite_turn(const tacho_embed* recorder);

/* Whether the rules in force are those of the load with this number. Does not wait. */
bool tacho_embed_rewrite_is_current(const tacho_embed* recorder, uint64_t turn);

/* Instead of a number of rules, see tacho_embed_rewrite_apply. */
#define TACHO_REWRITE_SUPERSEDED UINT64_MAX

/* Replaces the rules in force by those of the list, and stores them for the next start. Frees the
 * list in any case. `count`: the number of rules. `who`: the account that loads them; null: the
 * server itself. `turn`: number of the load; 0: none, it replaces all previous rules. If a load
 * with a higher number has already replaced the rules, nothing changes: the count is then
 * TACHO_REWRITE_SUPERSEDED, and the rules must be read anew. On failure: false, with the cause in
 * `error` (terminated, truncated); the previous rules stay in force. */
bool tacho_embed_rewrite_apply(const tacho_embed* recorder, const tacho_who* who,
                               tacho_rewrite_list* list, uint64_t turn, uint64_t* count,
                               char* error, size_t error_bytes);

/* Frees a list, which may be null. */
void tacho_embed_rewrite_cancel(tacho_rewrite_list* list);

/* Puts the rules in force again that were last in force in this log directory. Once, after
 * tacho_embed_start. If they cannot be read, there are none, and the error log says why. Returns
 * their number. */
uint64_t tacho_embed_rewrite_restore(const tacho_embed* recorder);

/* See tacho_embed_encryption. */
enum tacho_encryption_mode {
    TACHO_ENCRYPTION_CHECK = 0, /* only checks it */
    TACHO_ENCRYPTION_APPLY = 1, /* takes effect; if it is invalid, the previous one stays */
    TACHO_ENCRYPTION_BEGIN = 2  /* takes effect; if it is invalid, the log repeats this */
};

/* The recipients of closed files: the file with their public keys; "": none, files are not
 * encrypted. On failure: false, with the cause in `error` (terminated, truncated). */
bool tacho_embed_encryption(const tacho_embed* recorder, const tacho_who* who, const char* path,
                            uint32_t mode, char* error, size_t error_bytes);

/* Requests a new log file. */
void tacho_embed_rotate(const tacho_embed* recorder);

/* An operator has set TACHO_SETTING_RETENTION_DAYS or _FILES: all files beyond this limit may be
 * removed at once. */
void tacho_embed_retain(const tacho_embed* recorder, int32_t setting);

/* Requests that finished statements are written now. Does not wait for it. */
void tacho_embed_flush(const tacho_embed* recorder);

/* Reads the figures. */
void tacho_embed_read_status(const tacho_embed* recorder, tacho_embed_status* status);

/* Copies a text, terminated and truncated to `bytes`. */
void tacho_embed_read_text(const tacho_embed* recorder, int32_t which, char* text, size_t bytes);

/* Stops recording: no event may be in flight. Writes everything, waiting at most `timeout_ms` for a
 * log that cannot be written; the rest stays in the arena file and is recovered at the next start.
 * Frees the recorder. */
void tacho_embed_stop(tacho_embed* recorder, uint64_t timeout_ms);

/* Severity of a message. */
enum tacho_severity {
    TACHO_SEVERITY_NOTE = 0,
    TACHO_SEVERITY_WARNING = 1,
    TACHO_SEVERITY_ERROR = 2
};

/* Writes a message to the server's error log, in its format. severity: enum tacho_severity. */
void tacho_embed_log(int32_t severity, const char* text);

#ifdef __cplusplus
}
#endif

TACHO_ASSERT(sizeof(tacho_embed_config) == 56);
TACHO_ASSERT(offsetof(tacho_embed_config, log_directory) == 0);
TACHO_ASSERT(offsetof(tacho_embed_config, arena_directory) == 8);
TACHO_ASSERT(offsetof(tacho_embed_config, signing_key_file) == 16);
TACHO_ASSERT(offsetof(tacho_embed_config, server) == 24);
TACHO_ASSERT(offsetof(tacho_embed_config, arena_bytes) == 32);
TACHO_ASSERT(offsetof(tacho_embed_config, ending) == 40);
TACHO_ASSERT(offsetof(tacho_embed_config, tables) == 48);
TACHO_ASSERT(offsetof(tacho_embed_config, program) == 49);
TACHO_ASSERT(offsetof(tacho_embed_config, external) == 50);
TACHO_ASSERT(offsetof(tacho_embed_config, blocks) == 51);
TACHO_ASSERT(sizeof(tacho_embed_status) == 248);
TACHO_ASSERT(offsetof(tacho_embed_status, records_written) == 0);
TACHO_ASSERT(offsetof(tacho_embed_status, bytes_written) == 8);
TACHO_ASSERT(offsetof(tacho_embed_status, records_filtered) == 16);
TACHO_ASSERT(offsetof(tacho_embed_status, records_lost) == 24);
TACHO_ASSERT(offsetof(tacho_embed_status, records_lost_timeout) == 32);
TACHO_ASSERT(offsetof(tacho_embed_status, records_lost_dropped) == 40);
TACHO_ASSERT(offsetof(tacho_embed_status, records_lost_corrupt) == 48);
TACHO_ASSERT(offsetof(tacho_embed_status, records_lost_killed) == 56);
TACHO_ASSERT(offsetof(tacho_embed_status, blocked_count) == 64);
TACHO_ASSERT(offsetof(tacho_embed_status, blocked_time_us) == 72);
TACHO_ASSERT(offsetof(tacho_embed_status, arena_bytes_used) == 80);
TACHO_ASSERT(offsetof(tacho_embed_status, write_errors) == 88);
TACHO_ASSERT(offsetof(tacho_embed_status, filter_rules) == 96);
TACHO_ASSERT(offsetof(tacho_embed_status, sync_count) == 104);
TACHO_ASSERT(offsetof(tacho_embed_status, sync_time_us) == 112);
TACHO_ASSERT(offsetof(tacho_embed_status, sync_given_up) == 120);
TACHO_ASSERT(offsetof(tacho_embed_status, files_removed) == 128);
TACHO_ASSERT(offsetof(tacho_embed_status, files_compressed) == 136);
TACHO_ASSERT(offsetof(tacho_embed_status, disk_free_bytes) == 144);
TACHO_ASSERT(offsetof(tacho_embed_status, sessions) == 152);
TACHO_ASSERT(offsetof(tacho_embed_status, sessions_max) == 160);
TACHO_ASSERT(offsetof(tacho_embed_status, files_encrypted) == 168);
TACHO_ASSERT(offsetof(tacho_embed_status, files) == 176);
TACHO_ASSERT(offsetof(tacho_embed_status, files_bytes) == 184);
TACHO_ASSERT(offsetof(tacho_embed_status, files_days) == 192);
TACHO_ASSERT(offsetof(tacho_embed_status, files_to_pack) == 200);
TACHO_ASSERT(offsetof(tacho_embed_status, format_behind_bytes) == 208);
TACHO_ASSERT(offsetof(tacho_embed_status, statements_blocked) == 216);
TACHO_ASSERT(offsetof(tacho_embed_status, statements_rewritten) == 224);
TACHO_ASSERT(offsetof(tacho_embed_status, rewrite_rules) == 232);
TACHO_ASSERT(offsetof(tacho_embed_status, rewrites_failed) == 240);
TACHO_ASSERT(sizeof(tacho_who) == 40);
TACHO_ASSERT(offsetof(tacho_who, conn) == 0);
TACHO_ASSERT(offsetof(tacho_who, user) == 8);
TACHO_ASSERT(offsetof(tacho_who, priv_user) == 16);
TACHO_ASSERT(offsetof(tacho_who, host) == 24);
TACHO_ASSERT(offsetof(tacho_who, ip) == 32);
TACHO_ASSERT(sizeof(tacho_rewrite_rule) == 56);
TACHO_ASSERT(offsetof(tacho_rewrite_rule, id) == 0);
TACHO_ASSERT(offsetof(tacho_rewrite_rule, pattern) == 8);
TACHO_ASSERT(offsetof(tacho_rewrite_rule, pattern_database) == 24);
TACHO_ASSERT(offsetof(tacho_rewrite_rule, replacement) == 40);

#endif /* TACHO_EMBED_H */
