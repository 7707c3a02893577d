/* Zone: outside (tests only). Watches the hot zone of the shipped plugin in a real server.
 *
 * A library for LD_PRELOAD. It needs nothing from the plugin: the server asks dlsym for the
 * plugin's declarations, and gets them with the audit callback replaced by `watched_notify`,
 * which calls the real one. Between entry and exit of that call the thread is armed, and each
 * of the functions below is a violation: allocator, locks, condition variables, input and
 * output, sleeping, mapping memory, and system calls other than the declared futex. errno
 * must be the same afterwards.
 *
 * Not seen: system calls made without libc, and locks made of plain atomics.
 *
 *   TACHO_DETECTOR_PLUGIN  file name of the plugin (default tacho.so)
 *   TACHO_DETECTOR_REPORT  file that gets the summary when the process exits
 *   TACHO_DETECTOR_ABORT   1 = abort at the first violation, after a backtrace (default 0)
 *
 * See tests/preload/README.md.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The parts of <mysql/plugin_audit.h> and <mysql/plugin.h> that are used, by the same names. */
enum { MYSQL_AUDIT_PLUGIN = 5 };
/* MYSQL_AUDIT_INTERFACE_VERSION of MariaDB, and of MySQL 8.0, whose callbacks answer. */
enum { MARIADB_VERSION = 0x0302, MYSQL_VERSION = 0x0401 };

struct st_mysql_audit {
    int interface_version;
    void (*release_thd)(void* thd);
    void (*event_notify)(void* thd, unsigned int event_class, const void* event);
};

struct st_maria_plugin_head {
    int type;
    void* info;
};

static _Thread_local bool armed __attribute__((tls_model("initial-exec")));

static atomic_ulong events;
static atomic_ulong futex_calls;
static atomic_ulong errno_changes;
static atomic_ulong violations;
/* The first violation of each name; the names are string literals. */
static _Atomic(const char*) violation_names[32];

static void (*plugin_notify)(void* thd, unsigned int event_class, const void* event);

static bool must_abort(void) {
    const char* wish = getenv("TACHO_DETECTOR_ABORT");
    return wish != NULL && strcmp(wish, "1") == 0;
}

/* Remembers the name; tells whether it is new. */
static bool note_name(const char* name) {
    for (size_t i = 0; i < sizeof violation_names / sizeof *violation_names; i++) {
        const char* expected = NULL;
        if (atomic_compare_exchange_strong(&violation_names[i], &expected, name)) {
            return true;
        }
        if (strcmp(expected, name) == 0) {
            return false;
        }
    }
    return false;
}

static void report(const char* name) {
    armed = false;
    const int saved_errno = errno;
    atomic_fetch_add(&violations, 1);
    if (note_name(name)) {
        void* frames[32];
        dprintf(STDERR_FILENO, "tacho detector: %s in the hot zone\n", name);
        backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
    }
    if (must_abort()) {
        abort();
    }
    errno = saved_errno;
    armed = true;
}

static inline void check(const char* name) {
    if (__builtin_expect(armed, 0)) {
        report(name);
    }
}

int detector_enter(void) {
    const int before = errno;
    armed = true;
    return before;
}

void detector_leave(int before) {
    armed = false;
    atomic_fetch_add(&events, 1);
    if (errno != before) {
        atomic_fetch_add(&errno_changes, 1);
        dprintf(STDERR_FILENO, "tacho detector: errno was %d, is %d\n", before, errno);
        if (must_abort()) {
            abort();
        }
        errno = before;
    }
}

static void watched_notify(void* thd, unsigned int event_class, const void* event) {
    const int before = detector_enter();
    plugin_notify(thd, event_class, event);
    detector_leave(before);
}

static int (*mysql_plugin_notify)(void* thd, unsigned int event_class, const void* event);

static int watched_mysql_notify(void* thd, unsigned int event_class, const void* event) {
    const int before = detector_enter();
    const int answer = mysql_plugin_notify(thd, event_class, event);
    detector_leave(before);
    return answer;
}

/* The real function behind an interposed one. */
#define REAL(type, name, version)                                                                  \
    static __typeof__(type)* real;                                                                 \
    if (real == NULL) {                                                                            \
        real = (__typeof__(type)*)(uintptr_t)dlvsym(RTLD_NEXT, name, version);                     \
    }

static bool is_watched_plugin(const void* symbol) {
    const char* wanted = getenv("TACHO_DETECTOR_PLUGIN");
    Dl_info info;
    if (dladdr(symbol, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char* slash = strrchr(info.dli_fname, '/');
    return strcmp(slash != NULL ? slash + 1 : info.dli_fname,
                  wanted != NULL ? wanted : "tacho.so") == 0;
}

static void watch(struct st_maria_plugin_head* plugin) {
    struct st_mysql_audit* audit = plugin->info;
    if (plugin->type != MYSQL_AUDIT_PLUGIN || audit == NULL ||
        (audit->interface_version != MARIADB_VERSION &&
         audit->interface_version != MYSQL_VERSION)) {
        dprintf(STDERR_FILENO, "tacho detector: not an audit plugin of the known version\n");
        abort();
    }
    const bool is_mysql = audit->interface_version == MYSQL_VERSION;
    void (*const own)(void*, unsigned int, const void*) =
        is_mysql ? (void (*)(void*, unsigned int, const void*))(void (*)(void))watched_mysql_notify
                 : watched_notify;
    if (audit->event_notify == own) {
        return;
    }
    if (is_mysql) {
        mysql_plugin_notify =
            (int (*)(void*, unsigned int, const void*))(void (*)(void))audit->event_notify;
    } else {
        plugin_notify = audit->event_notify;
    }
    /* The descriptor may lie in memory that is read-only after relocation. */
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t)audit & ~(page - 1);
    const uintptr_t end = ((uintptr_t)audit + sizeof *audit + page - 1) & ~(page - 1);
    if (mprotect((void*)start, end - start, PROT_READ | PROT_WRITE) != 0) {
        abort();
    }
    audit->event_notify = own;
}

/* In detector_component.c, if that is linked in: for a component of MySQL. */
extern void* detector_components(void* list_components) __attribute__((weak));

void* dlsym(void* handle, const char* name) {
    REAL(void*(void*, const char*), "dlsym", "GLIBC_2.2.5")
    void* symbol = real(handle, name);
    if (symbol != NULL &&
        (strcmp(name, "_maria_plugin_declarations_") == 0 ||
         strcmp(name, "_mysql_plugin_declarations_") == 0) &&
        is_watched_plugin(symbol)) {
        watch(symbol);
    }
    if (symbol != NULL && strcmp(name, "list_components") == 0 && detector_components != NULL &&
        is_watched_plugin(symbol)) {
        symbol = detector_components(symbol);
    }
    return symbol;
}

__attribute__((constructor)) static void prepare(void) {
    /* The first backtrace loads a library; not inside a report. */
    void* frames[1];
    backtrace(frames, 1);
}

__attribute__((destructor)) static void summarise(void) {
    const char* path = getenv("TACHO_DETECTOR_REPORT");
    if (path == NULL || atomic_load(&events) == 0) {
        return;
    }
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) {
        return;
    }
    dprintf(file, "events %lu\nviolations %lu\nerrno_changes %lu\nfutex_calls %lu\n",
            atomic_load(&events), atomic_load(&violations), atomic_load(&errno_changes),
            atomic_load(&futex_calls));
    for (size_t i = 0; i < sizeof violation_names / sizeof *violation_names; i++) {
        const char* name = atomic_load(&violation_names[i]);
        if (name != NULL) {
            dprintf(file, "violation %s\n", name);
        }
    }
    close(file);
}

/* The allocator. glibc's own names, because dlsym itself may allocate. */
extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void* old);

void* malloc(size_t size) {
    check("malloc");
    return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
    check("calloc");
    return __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
    check("realloc");
    return __libc_realloc(old, size);
}

void free(void* old) {
    check("free");
    __libc_free(old);
}

void* memalign(size_t alignment, size_t size) {
    check("memalign");
    return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
    check("aligned_alloc");
    return __libc_memalign(alignment, size);
}

int posix_memalign(void** result, size_t alignment, size_t size) {
    check("posix_memalign");
    void* memory = __libc_memalign(alignment, size);
    if (memory == NULL) {
        return ENOMEM;
    }
    *result = memory;
    return 0;
}

/* C++, by the names of the Itanium ABI: a server may have an allocator that makes these without
 * malloc. All of them, so that what one gives another one takes back. */
#define NEW(name, parameters)                                                                      \
    void* name parameters {                                                                        \
        check("operator new");                                                                     \
        void* memory = __libc_malloc(size);                                                        \
        if (memory == NULL) {                                                                      \
            abort();                                                                               \
        }                                                                                          \
        return memory;                                                                             \
    }
#define NEW_ALIGNED(name, parameters)                                                              \
    void* name parameters {                                                                        \
        check("operator new");                                                                     \
        void* memory = __libc_memalign(alignment, size);                                           \
        if (memory == NULL) {                                                                      \
            abort();                                                                               \
        }                                                                                          \
        return memory;                                                                             \
    }
#define DELETE(name, parameters)                                                                   \
    void name parameters {                                                                         \
        if (old != NULL) {                                                                         \
            check("operator delete");                                                              \
        }                                                                                          \
        __libc_free(old);                                                                          \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
NEW(_Znwm, (size_t size))
NEW(_Znam, (size_t size))
NEW(_ZnwmRKSt9nothrow_t, (size_t size, const void* tag))
NEW(_ZnamRKSt9nothrow_t, (size_t size, const void* tag))
NEW_ALIGNED(_ZnwmSt11align_val_t, (size_t size, size_t alignment))
NEW_ALIGNED(_ZnamSt11align_val_t, (size_t size, size_t alignment))
NEW_ALIGNED(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void* tag))
NEW_ALIGNED(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void* tag))
DELETE(_ZdlPv, (void* old))
DELETE(_ZdaPv, (void* old))
DELETE(_ZdlPvm, (void* old, size_t size))
DELETE(_ZdaPvm, (void* old, size_t size))
DELETE(_ZdlPvRKSt9nothrow_t, (void* old, const void* tag))
DELETE(_ZdaPvRKSt9nothrow_t, (void* old, const void* tag))
DELETE(_ZdlPvSt11align_val_t, (void* old, size_t alignment))
DELETE(_ZdaPvSt11align_val_t, (void* old, size_t alignment))
DELETE(_ZdlPvmSt11align_val_t, (void* old, size_t size, size_t alignment))
DELETE(_ZdaPvmSt11align_val_t, (void* old, size_t size, size_t alignment))
#pragma GCC diagnostic pop

/* PASS(result, name, version, (parameters), (arguments)): check, then the real one. */
#define PASS(result, name, version, parameters, arguments)                                         \
    result name parameters {                                                                       \
        REAL(result parameters, #name, version)                                                    \
        check(#name);                                                                              \
        return real arguments;                                                                     \
    }

#define BASE "GLIBC_2.2.5"

PASS(int, pthread_mutex_lock, BASE, (pthread_mutex_t * m), (m))
PASS(int, pthread_mutex_trylock, BASE, (pthread_mutex_t * m), (m))
PASS(int, pthread_rwlock_rdlock, BASE, (pthread_rwlock_t * l), (l))
PASS(int, pthread_rwlock_wrlock, BASE, (pthread_rwlock_t * l), (l))
PASS(int, pthread_cond_wait, "GLIBC_2.3.2", (pthread_cond_t * c, pthread_mutex_t* m), (c, m))
PASS(int, pthread_cond_timedwait, "GLIBC_2.3.2",
     (pthread_cond_t * c, pthread_mutex_t* m, const struct timespec* t), (c, m, t))
PASS(int, pthread_cond_signal, "GLIBC_2.3.2", (pthread_cond_t * c), (c))
PASS(int, pthread_cond_broadcast, "GLIBC_2.3.2", (pthread_cond_t * c), (c))

PASS(ssize_t, read, BASE, (int fd, void* to, size_t n), (fd, to, n))
PASS(ssize_t, write, BASE, (int fd, const void* from, size_t n), (fd, from, n))
PASS(ssize_t, pread, BASE, (int fd, void* to, size_t n, off_t at), (fd, to, n, at))
PASS(ssize_t, pwrite, BASE, (int fd, const void* from, size_t n, off_t at), (fd, from, n, at))
PASS(int, close, BASE, (int fd), (fd))
PASS(int, fsync, BASE, (int fd), (fd))
PASS(int, fdatasync, BASE, (int fd), (fd))
PASS(void*, mmap, BASE, (void* at, size_t n, int prot, int flags, int fd, off_t from),
     (at, n, prot, flags, fd, from))
PASS(int, munmap, BASE, (void* at, size_t n), (at, n))
PASS(int, madvise, BASE, (void* at, size_t n, int advice), (at, n, advice))
PASS(int, poll, BASE, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout))
PASS(int, nanosleep, BASE, (const struct timespec* t, struct timespec* left), (t, left))
PASS(int, usleep, BASE, (useconds_t us), (us))
PASS(int, sched_yield, BASE, (void), ())
PASS(struct tm*, localtime_r, BASE, (const time_t* t, struct tm* to), (t, to))
PASS(struct tm*, gmtime_r, BASE, (const time_t* t, struct tm* to), (t, to))

/* OPEN(name, (parameters), flags, (arguments)): as PASS, with the optional mode. */
#define OPEN(name, parameters, arguments)                                                          \
    int name parameters {                                                                          \
        REAL(int parameters, #name, BASE)                                                          \
        check(#name);                                                                              \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        const bool has_mode = (flags & (O_CREAT | __O_TMPFILE)) != 0;                              \
        const mode_t mode = has_mode ? va_arg(rest, mode_t) : 0;                                   \
        va_end(rest);                                                                              \
        return real arguments;                                                                     \
    }

OPEN(open, (const char* path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char* path, int flags, ...), (path, flags, mode))
OPEN(openat, (int at, const char* path, int flags, ...), (at, path, flags, mode))

/* The one system call that the hot zone declares: waiting for a chunk and waking the writer
 * (docs/SAFETY.md). */
long syscall(long number, ...) {
    REAL(long(long, ...), "syscall", BASE)
    if (armed) {
        if (number == SYS_futex) {
            atomic_fetch_add(&futex_calls, 1);
        } else {
            check("syscall");
        }
    }
    va_list rest;
    va_start(rest, number);
    long a[6];
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(rest, long);
    }
    va_end(rest);
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
