/* Zone: hot. The C interface of the probe (crates/probe), for the adapters.
 *
 * Written by hand and checked twice: the assertions at the end are compiled into every
 * adapter, and crates/probe/tests/header.rs compares every number in this file with the Rust
 * side. No function allocates, takes a lock, throws or changes errno; see docs/SAFETY.md.
 */
#ifndef TACHO_PROBE_H
#define TACHO_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A mapped arena; created and owned by the recorder. */
typedef struct tacho_probe tacho_probe;

/* Slot of one connection in the arena. Never kept beyond the event it was asked for. */
typedef struct tacho_session tacho_session;

/* State of a server thread between calls: a thread_local of the adapter, all zero at first (`=
 * {}`), with the initial-exec TLS model, so that its first use allocates nothing.
 *
 * The adapter sets `killed` and `session` before each tacho_probe_emit(): a call that waits calls
 * `killed(session)` at intervals, on the same thread, and gives up when it returns true. The
 * function must be as harmless as the probe itself. Null: it is not called. All other members
 * belong to the probe. */
typedef struct tacho_thread {
    uint64_t idle_word;
    uint32_t index;
    uint32_t position;
    uint32_t owner;
    uint32_t lost_conn;
    bool (*killed)(const void* session);
    const void* session;
    uint32_t overflow;
    uint32_t reserved;
    uint64_t instance;
    uint64_t filter_epoch;
    uint64_t filter_conn;
    uint32_t filtered;
    uint8_t treatment;
    uint8_t filter_db_bytes;
    uint8_t filter_command_bytes;
    uint8_t filter_uses;
    uint8_t filter_key[44];
    uint32_t reserved_too;
} tacho_thread;

/* Borrowed bytes; valid during the call. A null pointer with length 0 is empty. */
typedef struct tacho_bytes {
    const char* data;
    size_t len;
} tacho_bytes;

/* tacho_event.kind: kind of a record. */
enum tacho_kind {
    TACHO_KIND_START = 1,       /* A statement started: identity and text. */
    TACHO_KIND_END = 2,         /* It ended: the outcome. Only if tacho_probe_end_known(). */
    TACHO_KIND_POINT = 3,       /* A command reported only at its end: has all fields. */
    TACHO_KIND_ERROR = 4,       /* Message of an error. */
    TACHO_KIND_TABLE = 5,       /* A table was accessed. */
    TACHO_KIND_CONNECT = 6,     /* A session was authenticated, or (errno) refused. */
    TACHO_KIND_DISCONNECT = 7,  /* A session ended. */
    TACHO_KIND_CHANGE_USER = 8, /* The user of a session changed. */
    TACHO_KIND_CONFIG = 9,      /* A setting of the recorder changed. */
    TACHO_KIND_REWRITE = 10,    /* The open statement got another text before parsing. */
    TACHO_KIND_NOTICE = 11 /* The server reports an event other than a statement: sql_command is
                              one of enum tacho_notice. */
};

/* tacho_event.sql_command of a NOTICE. In brackets: the strings PROXY_USER and OS_USER, and the
 * text. */
enum tacho_notice {
    TACHO_NOTICE_FLUSH = 1,         /* Privileges were reloaded. */
    TACHO_NOTICE_AUTHID_CREATE = 2, /* An account was created, unless error_code (user, host). */
    TACHO_NOTICE_CREDENTIAL_CHANGE = 3, /* The same: changed. */
    TACHO_NOTICE_AUTHID_RENAME = 4,     /* The same: renamed; the old name. */
    TACHO_NOTICE_AUTHID_DROP = 5,       /* The same: dropped. */
    TACHO_NOTICE_SET = 6,      /* A global variable is about to be set (name; the new value). */
    TACHO_NOTICE_USER = 7,     /* An application sends a message (component, producer; the message,
                                  of figures[0] bytes, then each attribute: u32 length of the key,
                                  u32 of the value, both). figures[1]: length of the original if
                                  parts were left out; else 0. */
    TACHO_NOTICE_INTERNAL = 8, /* The same, from a part of the server. */
    TACHO_NOTICE_EXECUTE = 9,  /* A procedure is about to be executed (database, name). */
    TACHO_NOTICE_STARTUP = 10, /* The server has started (the text: its arguments, each followed
                                  by a NUL; figures[1] as above). */
    TACHO_NOTICE_SHUTDOWN = 11 /* It shuts down (reason; the exit code). */
};

/* tacho_event.present: which fields are valid. */
enum tacho_present {
    TACHO_PRESENT_SQL_COMMAND = 1,    /* sql_command belongs to the statement itself. */
    TACHO_PRESENT_FIGURES = 2,        /* figures are stored; the next five bits say which. */
    TACHO_PRESENT_ROWS_SENT = 4,      /* figures[0] */
    TACHO_PRESENT_ROWS_EXAMINED = 8,  /* figures[1] */
    TACHO_PRESENT_ROWS_AFFECTED = 16, /* figures[2] */
    TACHO_PRESENT_QUERY_TIME = 32,    /* figures[3], us */
    TACHO_PRESENT_LOCK_TIME = 64,     /* figures[4], us */
    TACHO_PRESENT_SQLSTATE = 128,     /* sqlstate is valid. */
    TACHO_PRESENT_OUTERMOST = 256,    /* END: of the outermost open one. Others: is one itself. */
    TACHO_PRESENT_TEXT = 512,         /* There is a text, though it may be empty. */
    TACHO_PRESENT_REMAINDER = 1024,   /* START: of the rest of a packet after a statement. */
    TACHO_PRESENT_INNERMOST = 2048,   /* Ends the innermost open statement. */
    TACHO_PRESENT_NESTED = 4096,      /* START, POINT: inside a stored program. */
    TACHO_PRESENT_AWAITED = 8192, /* START: its producer waits for its line; set by the probe. */
    TACHO_PRESENT_BLOCKED = 16384 /* ERROR: the text is the name of the rule that blocks it. */
};

/* Index into tacho_event.strings. (REWRITE has none: its text is the new one, figures[0] the id of
 * the rule, with TACHO_PRESENT_FIGURES | TACHO_PRESENT_TEXT.) Each string is truncated at
 * TACHO_STRING_BYTES_MAX bytes. END and ERROR have none: their START has the account and host. */
enum tacho_string {
    TACHO_STRING_USER = 0,       /* TABLE: the access, one digit. */
    TACHO_STRING_PRIV_USER = 1,  /* TABLE: name of the table. */
    TACHO_STRING_PROXY_USER = 2, /* TABLE: new name of the table. NOTICE: see tacho_notice. */
    TACHO_STRING_OS_USER = 3,    /* TABLE: new database. NOTICE: see tacho_notice. */
    TACHO_STRING_HOST = 4,
    TACHO_STRING_IP = 5,
    TACHO_STRING_DB = 6,       /* TABLE: database of the table. */
    TACHO_STRING_COMMAND = 7,  /* CONFIG: the variable. */
    TACHO_STRING_CHARSET = 8,  /* Of the text. CONFIG: the old value; the new one is the text. */
    TACHO_STRING_RESERVED = 9, /* Not read. */
    TACHO_STRING_COUNT = 10
};

enum tacho_limit {
    TACHO_STRING_BYTES_MAX = 640, /* Longest string, bytes. */
    TACHO_FIGURE_COUNT = 5        /* Number of tacho_event.figures. */
};

/* One event; borrowed, valid during the call. All members must be set (`= {}` is enough), but
 * `figures` without TACHO_PRESENT_FIGURES and `strings` of END and ERROR are not read. */
typedef struct tacho_event {
    uint32_t kind;        /* TACHO_KIND_* */
    uint32_t present;     /* TACHO_PRESENT_* */
    uint64_t conn;        /* Connection id. */
    uint64_t query_id;    /* The server's query id. */
    uint64_t text_id;     /* Joins an end with its start (address of the text); 0 = none. */
    int64_t ts_us;        /* us since 1970-01-01 UTC. END with TACHO_PRESENT_QUERY_TIME: a second's
                             difference does no harm. */
    int32_t sql_command;  /* The server's number of the statement's class, -1 = unknown. */
    uint32_t error_code;  /* Error number, 0 = none. */
    char sqlstate[8];     /* SQLSTATE in the first five bytes. */
    uint32_t shown_bytes; /* END: length of the statement as known at its end. */
    uint32_t reserved;    /* 0 */
    uint64_t figures[TACHO_FIGURE_COUNT]; /* rows_sent, rows_examined, rows_affected,
                                             query_time_us, lock_time_us. */
    tacho_bytes strings[TACHO_STRING_COUNT];
    tacho_bytes text;
} tacho_event;

/* Whether recording is on.
 *
 * Runs on: any thread. Blocks: no. */
bool tacho_probe_logging(const tacho_probe* probe);

/* The filter's decision for a statement that starts. */
enum tacho_wanted {
    TACHO_WANTED_OFF = 0,    /* Recording is off. */
    TACHO_WANTED_SKIP = 1,   /* The filter discards it; it was counted. */
    TACHO_WANTED_RECORD = 2, /* It is recorded. */
    TACHO_WANTED_LOOK = 3,   /* There is a filter: tacho_probe_look(). */
    TACHO_WANTED_ASK = 4     /* No decision yet: tacho_probe_decide(). */
};

/* What a filter can use before a statement runs. */
typedef struct tacho_facts {
    tacho_bytes user;
    tacho_bytes host;
    tacho_bytes ip;
    tacho_bytes db;
    tacho_bytes command;
} tacho_facts;

/* Whether to record a statement that starts, as far as this does not depend on the statement:
 * TACHO_WANTED_OFF, _SKIP, _RECORD or _LOOK.
 *
 * Runs on: the thread that executes the connection. Blocks: no.
 * Counted as: filtered. */
uint32_t tacho_probe_wanted(const tacho_probe* probe, tacho_thread* thread, uint64_t conn);

/* The same after TACHO_WANTED_LOOK: TACHO_WANTED_SKIP, _RECORD or _ASK.
 *
 * Runs on: the thread that executes the connection. Blocks: no.
 * Counted as: filtered. */
uint32_t tacho_probe_look(const tacho_probe* probe, tacho_thread* thread, uint64_t conn,
                          const tacho_bytes* db, const tacho_bytes* command);

/* The same after TACHO_WANTED_ASK, with all facts that the filter may need: TACHO_WANTED_SKIP or
 * _RECORD. Keeps the answer for later statements.
 *
 * Runs on: the thread that executes the connection. Blocks: no.
 * Counted as: filtered. */
uint32_t tacho_probe_decide(const tacho_probe* probe, tacho_thread* thread, uint64_t conn,
                            const tacho_facts* facts);

/* State of a server thread for the rules that block: a part of a thread_local of the adapter, all
 * zero at first. */
typedef struct tacho_blocking {
    uint64_t epoch;
    uint64_t conn;
    uint8_t commands[33];
    uint8_t reserved[7];
} tacho_blocking;

/* The facts about a statement before it runs. */
typedef struct tacho_block_facts {
    tacho_facts session; /* of the connected user, even inside a stored program */
    tacho_bytes table_db;
    tacho_bytes table; /* that it is about to access; empty: its tables are not open yet */
    int32_t sql_command;
    uint32_t reserved; /* 0 */
} tacho_block_facts;

/* The error for a statement that is blocked. */
typedef struct tacho_blocked {
    uint32_t error_code;
    uint32_t name_bytes;
    char name[132];    /* of the rule */
    char message[484]; /* with a NUL at its end */
} tacho_blocked;

/* Whether any rule blocks.
 *
 * Runs on: any thread. Blocks: no. */
bool tacho_probe_has_block(const tacho_probe* probe);

/* Whether a rule may block a statement of this connection. If not, no further calls are needed.
 *
 * Runs on: the thread that executes the connection. Blocks: no. */
bool tacho_probe_may_block(const tacho_probe* probe, const tacho_blocking* blocking, uint64_t conn,
                           int32_t sql_command);

/* Whether a rule blocks the statement; if so, fills `out`.
 *
 * Runs on: the thread that executes the connection. Blocks: no. */
bool tacho_probe_block(const tacho_probe* probe, tacho_blocking* blocking, uint64_t conn,
                       const tacho_block_facts* facts, tacho_blocked* out);

/* Counts a statement that was not executed because a rule blocks it.
 *
 * Runs on: any thread. Blocks: no.
 * Counted as: statements_blocked. */
void tacho_probe_note_blocked(const tacho_probe* probe);

/* tacho_rewrite_facts.modes: how the session's statements are read. */
enum tacho_rewrite_mode {
    TACHO_REWRITE_ANSI_QUOTES = 1,          /* sql_mode has ANSI_QUOTES. */
    TACHO_REWRITE_NO_BACKSLASH_ESCAPES = 2, /* sql_mode has NO_BACKSLASH_ESCAPES. */
    TACHO_REWRITE_MODE_UNKNOWN = 4 /* Unknown: a text that depends on them is not rewritten. */
};

/* The facts about a statement before it is parsed. */
typedef struct tacho_rewrite_facts {
    tacho_bytes text;    /* to the end of the packet */
    tacho_bytes db;      /* the session's database */
    tacho_bytes charset; /* of the text, as TACHO_STRING_CHARSET */
    uint64_t conn;
    uint32_t modes;    /* TACHO_REWRITE_* */
    uint32_t reserved; /* 0 */
} tacho_rewrite_facts;

/* Whether the executing session is exempt from rules. */
typedef bool (*tacho_is_exempt)(void);
/* The server's allocator; null: out of memory. */
typedef void* (*tacho_allocate)(size_t bytes);

/* Functions that only the server can provide, called only if a rule matches: first whether the
 * session is exempt, then for the new text's memory. */
typedef struct tacho_rewrite_server {
    tacho_is_exempt is_exempt;
    tacho_allocate allocate;
} tacho_rewrite_server;

/* The statement to parse instead. */
typedef struct tacho_rewritten {
    tacho_bytes text; /* allocated, followed by a NUL that is not counted */
    uint64_t rule_id; /* as passed to tacho_embed_rewrite_add() */
} tacho_rewritten;

/* Whether a rule may rewrite a statement, according to its text. If not, as for most statements, no
 * facts about the session are needed. text: as tacho_rewrite_facts.text.
 *
 * Runs on: any thread. Blocks: no. */
bool tacho_probe_may_rewrite(const tacho_probe* probe, tacho_bytes text);

/* Whether a rule rewrites the statement; if so, fills `out`, whose text the caller must free. A
 * text that is followed by another statement is not rewritten.
 *
 * Runs on: any thread. Blocks: no. Calls the functions of `server` when a rule matches, each once.
 * Counted as: statements_rewritten; rewrites_failed, if there was no memory. */
bool tacho_probe_rewrite(const tacho_probe* probe, const tacho_rewrite_facts* facts,
                         const tacho_rewrite_server* server, tacho_rewritten* out);

/* The user of a session has changed: the filter's decisions are no longer valid.
 *
 * Runs on: any thread. Blocks: no. */
void tacho_probe_identity_changed(const tacho_probe* probe);

/* Slot of a connection, which gets one if it has none. Null when all are in use: the connection's
 * records are then not numbered. now_us: us since 1970-01-01 UTC.
 *
 * Runs on: the thread that executes the connection. Blocks: no.
 * Counted as: sessions_untracked. */
tacho_session* tacho_probe_session(const tacho_probe* probe, uint64_t conn, int64_t now_us);

/* Whether the end of a statement belongs to a start that was recorded; forgets that start and all
 * starts nested in it. If not, send TACHO_KIND_POINT with all fields instead of TACHO_KIND_END.
 * session may be null.
 *
 * Runs on: the thread that executes the connection. Blocks: no. */
bool tacho_probe_end_known(tacho_session* session, uint64_t text_id, uint64_t query_id,
                           uint32_t text_bytes);

/* Whether a start of the connection waits for its end. session may be null.
 *
 * Runs on: the thread that executes the connection. Blocks: no. */
bool tacho_probe_has_open(const tacho_session* session);

/* Records an event. session: the slot of event->conn, or null.
 *
 * Runs on: the thread that executes the connection. Blocks: only if no chunk is free and the
 * overflow policy says so, while a huge statement goes to the file, and while a start goes to the
 * device if durability is SYNC.
 * On failure: the record is lost. Counted as: lost_timeout, lost_dropped, lost_killed. */
void tacho_probe_emit(const tacho_probe* probe, tacho_thread* thread, tacho_session* session,
                      const tacho_event* event);

/* Forgets a connection that has ended (session may be null), and releases the thread's chunk.
 *
 * Runs on: the thread that executed the connection. Blocks: no. */
void tacho_probe_forget(const tacho_probe* probe, tacho_thread* thread, tacho_session* session);

#ifdef __cplusplus
}
#define TACHO_ASSERT(condition) static_assert(condition, #condition)
#else
#define TACHO_ASSERT(condition) _Static_assert(condition, #condition)
#endif

TACHO_ASSERT(sizeof(tacho_bytes) == 16);
TACHO_ASSERT(sizeof(tacho_facts) == 80);
TACHO_ASSERT(sizeof(tacho_blocking) == 56);
TACHO_ASSERT(sizeof(tacho_block_facts) == 120);
TACHO_ASSERT(sizeof(tacho_blocked) == 624);
TACHO_ASSERT(offsetof(tacho_blocked, name) == 8);
TACHO_ASSERT(offsetof(tacho_blocked, message) == 140);
TACHO_ASSERT(sizeof(tacho_rewrite_facts) == 64);
TACHO_ASSERT(offsetof(tacho_rewrite_facts, conn) == 48);
TACHO_ASSERT(offsetof(tacho_rewrite_facts, modes) == 56);
TACHO_ASSERT(sizeof(tacho_rewritten) == 24);
TACHO_ASSERT(offsetof(tacho_rewritten, rule_id) == 16);
TACHO_ASSERT(sizeof(tacho_thread) == 128);
TACHO_ASSERT(offsetof(tacho_thread, idle_word) == 0);
TACHO_ASSERT(offsetof(tacho_thread, index) == 8);
TACHO_ASSERT(offsetof(tacho_thread, position) == 12);
TACHO_ASSERT(offsetof(tacho_thread, owner) == 16);
TACHO_ASSERT(offsetof(tacho_thread, lost_conn) == 20);
TACHO_ASSERT(offsetof(tacho_thread, killed) == 24);
TACHO_ASSERT(offsetof(tacho_thread, session) == 32);
TACHO_ASSERT(offsetof(tacho_thread, overflow) == 40);
TACHO_ASSERT(offsetof(tacho_thread, instance) == 48);
TACHO_ASSERT(offsetof(tacho_thread, filter_epoch) == 56);
TACHO_ASSERT(offsetof(tacho_thread, filtered) == 72);
TACHO_ASSERT(offsetof(tacho_thread, treatment) == 76);
TACHO_ASSERT(offsetof(tacho_thread, filter_key) == 80);
TACHO_ASSERT(sizeof(tacho_event) == 280);
TACHO_ASSERT(offsetof(tacho_event, kind) == 0);
TACHO_ASSERT(offsetof(tacho_event, present) == 4);
TACHO_ASSERT(offsetof(tacho_event, conn) == 8);
TACHO_ASSERT(offsetof(tacho_event, query_id) == 16);
TACHO_ASSERT(offsetof(tacho_event, text_id) == 24);
TACHO_ASSERT(offsetof(tacho_event, ts_us) == 32);
TACHO_ASSERT(offsetof(tacho_event, sql_command) == 40);
TACHO_ASSERT(offsetof(tacho_event, error_code) == 44);
TACHO_ASSERT(offsetof(tacho_event, sqlstate) == 48);
TACHO_ASSERT(offsetof(tacho_event, shown_bytes) == 56);
TACHO_ASSERT(offsetof(tacho_event, reserved) == 60);
TACHO_ASSERT(offsetof(tacho_event, figures) == 64);
TACHO_ASSERT(offsetof(tacho_event, strings) == 104);
TACHO_ASSERT(offsetof(tacho_event, text) == 264);

#endif /* TACHO_PROBE_H */
