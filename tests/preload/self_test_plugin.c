/* Zone: outside (tests only). A plugin whose callback does what the hot zone must not do; the
 * event class says what. Built as tacho.so by self_test.sh. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void* volatile memory;

static void notify(void* thd, unsigned int event_class, const void* event) {
    (void)thd;
    (void)event;
    switch (event_class) {
    case 1:
        memory = malloc(10);
        break;
    case 2:
        free(memory);
        break;
    case 3:
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        break;
    case 4:
        (void)!write(STDERR_FILENO, "", 0);
        break;
    case 5:
        syscall(SYS_getppid);
        break;
    case 6:
        errno = ERANGE;
        break;
    case 7: /* Allowed: wakes no thread. */
        syscall(SYS_futex, &memory, 1 /* FUTEX_WAKE */, 1, 0, 0, 0);
        break;
    default:
        break;
    }
}

static struct {
    int interface_version;
    void (*release_thd)(void* thd);
    void (*event_notify)(void* thd, unsigned int event_class, const void* event);
} audit = {0x0302, 0, notify};

struct {
    int type;
    void* info;
} _maria_plugin_declarations_[] = {{5, &audit}};
