// Zone: outside. Makes writes to audit log files, or syncing them, fail or take long, for as long
// as a file says so.
//
// Preloaded into a server by the tests (tests/src/disk.rs). While the file named by
// TACHO_FAULT_FILE exists and contains "<errno> <percent> <ms> write", a write to a file named
// audit-* first takes that time, and then writes that percentage of its bytes to the file and fails
// with that error number, as a network file system may. With the error number 0 it succeeds. With
// "sync" instead of "write", fdatasync takes that time and fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t (*write_function)(int, const void*, size_t);

static int is_log_file(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length < 0) {
        return 0;
    }
    path[length] = '\0';
    const char* name = strrchr(path, '/');
    return name != NULL && strncmp(name + 1, "audit-", 6) == 0;
}

// Reads the fault for this call; returns 0 if there is none.
static int fault(const char* call, int* number, unsigned* percent, unsigned* ms) {
    const char* path = getenv("TACHO_FAULT_FILE");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    char text[64];
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0) {
        return 0;
    }
    text[length] = '\0';
    char meant[8];
    return sscanf(text, "%d %u %u %7s", number, percent, ms, meant) == 4 &&
           strcmp(meant, call) == 0;
}

static void wait_for(unsigned ms) {
    struct timespec rest = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}

ssize_t write(int fd, const void* bytes, size_t count) {
    static write_function next;
    if (next == NULL) {
        next = (write_function)dlsym(RTLD_NEXT, "write");
    }
    int saved = errno;
    int number = 0;
    unsigned percent = 0;
    unsigned ms = 0;
    int is_meant = fault("write", &number, &percent, &ms) && is_log_file(fd);
    if (is_meant) {
        wait_for(ms);
    }
    errno = saved;
    if (!is_meant || number == 0) {
        return next(fd, bytes, count);
    }
    if (percent > 0 && next(fd, bytes, count * percent / 100) < 0) {
        return -1;
    }
    errno = number;
    return -1;
}

int fdatasync(int fd) {
    static int (*next)(int);
    if (next == NULL) {
        next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    }
    int saved = errno;
    int number = 0;
    unsigned percent = 0;
    unsigned ms = 0;
    int is_meant = fault("sync", &number, &percent, &ms) && is_log_file(fd);
    if (is_meant) {
        wait_for(ms);
    }
    errno = saved;
    if (!is_meant || number == 0) {
        return next(fd);
    }
    errno = number;
    return -1;
}
