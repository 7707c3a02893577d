/* Zone: cold. The C interface of the embedded recorder (crates/embed), for the adapters.
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

#ifdef __cplusplus
extern "C" {
#endif

/* A recorder: an arena, a log directory and a writer thread. */
typedef struct tacho_embed tacho_embed;

/* What a recorder is started with. All strings are NUL-terminated and only read. */
typedef struct tacho_embed_config {
    const char* log_directory;    /* made if it does not exist */
    const char* arena_directory;  /* usually /dev/shm */
    const char* signing_key_file; /* made if it does not exist; "": the log is not sealed */
    const char* server;           /* "MariaDB 10.11.19-MariaDB ..." */
    uint64_t arena_bytes;
    const volatile unsigned char* ending; /* not 0 when the server shuts down; may be null */
    bool tables;                          /* the adapter sends which tables a statement touches */
    bool program;                         /* it knows the program name of a connection */
    bool external;                        /* a recorder outside the server is to write */
    bool blocks;                          /* the server can be told not to execute a statement */
} tacho_embed_config;

/* Settings that can change while it runs. */
enum tacho_setting {
    TACHO_SETTING_LOGGING = 0,  /* 0 or 1 */
    TACHO_SETTING_OVERFLOW = 1, /* 0 BLOCK, 1 TIMEOUT, 2 DROP */
    TACHO_SETTING_OVERFLOW_TIMEOUT_MS = 2,
    TACHO_SETTING_FLUSH_INTERVAL_MS = 3,
    TACHO_SETTING_FLUSH_BYTES = 4,
    TACHO_SETTING_ROTATE_BYTES = 5,          /* 0 = never */
    TACHO_SETTING_TIMESTAMPS = 6,            /* 0 SYSTEM, 1 UTC */
    TACHO_SETTING_MAX_STATEMENT_BYTES = 7,   /* 0 = whole */
    TACHO_SETTING_CHECKPOINT_INTERVAL_S = 8, /* 0 = only at rotation and stop */
    TACHO_SETTING_DIGEST = 9,                /* 0 or 1 */
    TACHO_SETTING_REDACT = 10,               /* 0 SECRETS, 1 LITERALS */
    TACHO_SETTING_ROTATE_INTERVAL_S = 11,    /* 0 = never */
    TACHO_SETTING_DURABILITY = 12,           /* 0 ASYNC, 1 GROUP, 2 SYNC */
    TACHO_SETTING_SYNC_INTERVAL_MS = 13,
    TACHO_SETTING_RETENTION_DAYS = 14,    /* 0 = keep */
    TACHO_SETTING_RETENTION_BYTES = 15,   /* 0 = keep */
    TACHO_SETTING_COMPRESSION = 16,       /* 0 NONE, 1 ZSTD */
    TACHO_SETTING_DISK_WARN_PERCENT = 17, /* 0 = never */
    TACHO_SETTING_FORMAT = 18,            /* 0 JSON alone; beside it: 1 CSV, 2 PERCONA_JSON,
                                             3 PERCONA_NEW, 4 PERCONA_OLD. After TIMESTAMPS, before
                                             RETENTION_* and COMPRESSION, the first time */
    TACHO_SETTING_WRITER = 19,            /* 0 EMBEDDED, 1 EXTERNAL */
    TACHO_SETTING_RETENTION_FILES = 20    /* 0 = keep */
};

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
    uint64_t files;               /* log files, in whatever form */
    uint64_t files_bytes;         /* with their sidecars and renditions */
    uint64_t files_days;          /* how far back they go */
    uint64_t files_to_pack;       /* closed files that wait to be compressed or encrypted */
    uint64_t format_behind_bytes; /* of the log, not in the other format yet */
    uint64_t statements_blocked;  /* that a rule has kept from being executed */
    uint64_t statements_rewritten;
    uint64_t rewrite_rules;   /* in force */
    uint64_t rewrites_failed; /* a rule matched, and there was no memory for the new text */
} tacho_embed_status;

/* Texts for SHOW STATUS. */
enum tacho_text {
    TACHO_TEXT_LAST_ERROR = 0,
    TACHO_TEXT_CURRENT_FILE = 1,
    TACHO_TEXT_ARENA = 2,
    TACHO_TEXT_WRITER = 3, /* "EMBEDDED", or "EXTERNAL" and the process id of the recorder */
    TACHO_TEXT_OLDEST_FILE = 4,
    TACHO_TEXT_OLDEST_TIME = 5,     /* times are as those in the log; empty: there is none */
    TACHO_TEXT_CHECKPOINT_TIME = 6, /* when the seal was last signed */
    TACHO_TEXT_ROTATE_DUE_TIME = 7, /* when a new file is begun because of its age */
    TACHO_TEXT_FILTER_ERROR = 8,    /* see tacho_fault; empty: nothing is wrong */
    TACHO_TEXT_ENCRYPTION_ERROR = 9,
    TACHO_TEXT_REWRITE_ERROR = 10
};

/* Starts recording: recovers what a crash has left, makes the arena, starts the writer.
 * Settings are at their defaults and logging is off: set them, then turn logging on.
 * On failure: null, with what to do about it in `error` (terminated, cut). */
tacho_embed* tacho_embed_start(const tacho_embed_config* config, char* error, size_t error_bytes);

/* Name of a sql_command number. Before logging is turned on. */
void tacho_embed_set_name(const tacho_embed* recorder, uint32_t number, const char* name);

/* What the probe functions need. Valid until tacho_embed_stop. */
const tacho_probe* tacho_embed_probe(const tacho_embed* recorder);

/* Changes a setting. */
void tacho_embed_set(const tacho_embed* recorder, int32_t setting, uint64_t value);

/* Who changes a setting. Terminated strings; null or empty: not known. */
typedef struct tacho_who {
    uint64_t conn; /* 0: the server itself */
    const char* user;
    const char* priv_user;
    const char* host;
    const char* ip;
} tacho_who;

/* Tells the log that a setting was changed: by whom, variable, old and new value. */
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
    TACHO_FILTER_APPLY = 2 /* it takes effect; without, it is only checked */
};

/* Which statements are recorded, in JSON; empty: all. After tacho_embed_set_name. `who` wants it;
 * null: the server's own start. `variable` is what the log calls the setting.
 * On failure: false, with where and what is wrong in `error` (terminated, cut); the filter before
 * stays in effect. */
bool tacho_embed_filter(const tacho_embed* recorder, const tacho_who* who, const char* variable,
                        const char* text, uint32_t flags, char* error, size_t error_bytes);

/* A rule that rewrites. All texts are UTF-8. */
typedef struct tacho_rewrite_rule {
    uint64_t id; /* told with each statement that it rewrites */
    tacho_bytes pattern;
    tacho_bytes pattern_database; /* the session's; data null: any */
    tacho_bytes replacement;
} tacho_rewrite_rule;

/* Rules that are about to replace those in force. Used by one thread at a time. */
typedef struct tacho_rewrite_list tacho_rewrite_list;

/* An empty list, to be given to tacho_embed_rewrite_apply or tacho_embed_rewrite_cancel. Never
 * null but for an internal error. Needs no recorder. */
tacho_rewrite_list* tacho_embed_rewrite_begin(void);

/* Adds a rule. 0, or the length of what is wrong with it, which is in `message` (UTF-8, terminated,
 * cut): the list is then as it was. */
size_t tacho_embed_rewrite_add(tacho_rewrite_list* list, const tacho_rewrite_rule* rule,
                               char* message, size_t message_bytes);

/* What is wrong with the rules that were not added, by their ids: a JSON object, of the first
 * 100,000 (UTF-8, terminated, cut). Returns its length. */
size_t tacho_embed_rewrite_faults(const tacho_rewrite_list* list, char* text, size_t bytes);

/* What a pattern looks like without its literals, and its digest, as the log has them for the
 * statements it matches: terminated, cut. Returns the length; 0: the pattern is wrong. */
size_t tacho_embed_rewrite_normalized(tacho_bytes pattern, char* text, size_t bytes);
size_t tacho_embed_rewrite_digest(tacho_bytes pattern, char* text, size_t bytes);

/* A number for a load that is about to read its rules: not 0, and higher than all before. */
uint64_t tacho_embed_rewrite_turn(const tacho_embed* recorder);

/* Whether the rules in force are those of the load with this number. Waits for nothing. */
bool tacho_embed_rewrite_is_current(const tacho_embed* recorder, uint64_t turn);

/* In the place of a number of rules, see tacho_embed_rewrite_apply. */
#define TACHO_REWRITE_SUPERSEDED UINT64_MAX

/* The rules of the list are in force from now on, in the place of those before, and are kept for
 * the next start. The list is gone, whatever is answered. `count`: how many rules. `who` wants it;
 * null: the server itself. `turn`: number of the load; 0: it has none, and replaces all before.
 * If a load with a higher number has replaced the rules already, nothing changes: the count is
 * TACHO_REWRITE_SUPERSEDED then, and the rules have to be read anew.
 * On failure: false, with the cause in `error` (terminated, cut); the rules before stay in
 * force. */
bool tacho_embed_rewrite_apply(const tacho_embed* recorder, const tacho_who* who,
                               tacho_rewrite_list* list, uint64_t turn, uint64_t* count,
                               char* error, size_t error_bytes);

/* Forgets a list; it may be null. */
void tacho_embed_rewrite_cancel(tacho_rewrite_list* list);

/* The rules that were in force when the recorder of this log directory was last told of some are in
 * force again. Once, after tacho_embed_start. What cannot be read is told in the error log; then
 * there are none. Returns how many. */
uint64_t tacho_embed_rewrite_restore(const tacho_embed* recorder);

/* See tacho_embed_encryption. */
enum tacho_encryption_mode {
    TACHO_ENCRYPTION_CHECK = 0, /* only says whether it is right */
    TACHO_ENCRYPTION_APPLY = 1, /* it takes effect; if it is wrong, the one before stays */
    TACHO_ENCRYPTION_BEGIN = 2  /* it takes effect; the log says again and again if it is wrong */
};

/* Who may read closed files: the file with their public keys; "": everyone, nothing is encrypted.
 * On failure: false, with what is wrong in `error` (terminated, cut). */
bool tacho_embed_encryption(const tacho_embed* recorder, const tacho_who* who, const char* path,
                            uint32_t mode, char* error, size_t error_bytes);

/* Asks for a new log file. */
void tacho_embed_rotate(const tacho_embed* recorder);

/* Somebody has set TACHO_SETTING_RETENTION_DAYS or _FILES, and means it: all files beyond this
 * limit may go at once. */
void tacho_embed_retain(const tacho_embed* recorder, int32_t setting);

/* Asks the writer to write what has ended, now. Does not wait for it. */
void tacho_embed_flush(const tacho_embed* recorder);

/* Reads the figures. */
void tacho_embed_read_status(const tacho_embed* recorder, tacho_embed_status* status);

/* Copies a text, terminated and cut to `bytes`. */
void tacho_embed_read_text(const tacho_embed* recorder, int32_t which, char* text, size_t bytes);

/* Stops recording: no event may be in flight. Writes what there is, waiting for a log that
 * cannot be written at most `patience_ms`; what is left then stays in the arena file and is
 * recovered at the next start. Frees the recorder. */
void tacho_embed_stop(tacho_embed* recorder, uint64_t patience_ms);

/* A message to the server's error log, in its form. severity: 0 note, 1 warning, 2 error. */
void tacho_embed_log(int32_t severity, const char* text);

#ifdef __cplusplus
}
#endif
#endif /* TACHO_EMBED_H */
