/* Zone: outside.
 *
 * The part of the detector (detector.c) for a component of MySQL. The server asks dlsym for the
 * list of components, and gets it with the component's init replaced. That one puts itself between
 * the component and the registry: each event service that is registered is registered with a
 * callback of ours, which arms the thread, calls the real one and disarms it. The callbacks for
 * traces are watched in the same way.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern int detector_enter(void);
extern void detector_leave(int before);

/* The parts of <mysql/components/services/dynamic_loader.h> and registry.h that are used. */
struct placeholder {
    const char* name;
    void** implementation;
};
struct component {
    const char* name;
    void* provides;
    struct placeholder* requires_service;
    void* metadata;
    int (*init)(void);
    int (*deinit)(void);
};
struct registration {
    int (*register_service)(const char* name, void* service);
    int (*unregister)(const char* name);
    int (*set_default)(const char* name);
};
/* The common form of all event services. */
struct event_service {
    int (*notify)(const void* event);
};

/* <mysql/components/services/bits/server_telemetry_traces_bits.h> */
struct traces {
    void* (*session_create)(void);
    void (*session_destroy)(void* session);
    void* (*start)(void* session, uint64_t* flags);
    void* (*notify_attributes)(void* locker, bool with_attributes, uint64_t* flags);
    void (*abort)(void* locker);
    void (*end)(void* locker, void* data);
};
struct trace_registration {
    bool (*register_telemetry)(struct traces* traces);
    void (*abort_telemetry)(void* session);
    bool (*unregister_telemetry)(struct traces* traces);
};

#define SERVICES_MAX 5
static struct event_service real_services[SERVICES_MAX];

#define WATCHED(number)                                                                            \
    static int watched_##number(const void* event) {                                               \
        const int before = detector_enter();                                                       \
        const int result = real_services[number].notify(event);                                    \
        detector_leave(before);                                                                    \
        return result;                                                                             \
    }
WATCHED(0)
WATCHED(1)
WATCHED(2)
WATCHED(3)
WATCHED(4)
static struct event_service watched_services[SERVICES_MAX] = {
    {watched_0}, {watched_1}, {watched_2}, {watched_3}, {watched_4}};
static int service_count;

static struct component* (*real_list)(void);
static int (*real_init)(void);
static struct component* watched_component;
static const struct registration* real_registration;
static struct registration watched_registration;

static int register_service(const char* name, void* service) {
    if (strncmp(name, "event_tracking_", strlen("event_tracking_")) != 0) {
        return real_registration->register_service(name, service);
    }
    if (service_count == SERVICES_MAX) {
        dprintf(STDERR_FILENO, "tacho detector: more event services than it can watch\n");
        abort();
    }
    real_services[service_count] = *(const struct event_service*)service;
    return real_registration->register_service(name, &watched_services[service_count++]);
}

static struct traces real_traces;
static const struct trace_registration* real_trace_registration;
static struct trace_registration watched_trace_registration;

static void* trace_start(void* session, uint64_t* flags) {
    const int before = detector_enter();
    void* locker = real_traces.start(session, flags);
    detector_leave(before);
    return locker;
}

static void* trace_attributes(void* locker, bool with_attributes, uint64_t* flags) {
    const int before = detector_enter();
    void* result = real_traces.notify_attributes(locker, with_attributes, flags);
    detector_leave(before);
    return result;
}

static void trace_end(void* locker, void* data) {
    const int before = detector_enter();
    real_traces.end(locker, data);
    detector_leave(before);
}

static bool register_telemetry(struct traces* traces) {
    static struct traces watched;
    real_traces = *traces;
    watched = real_traces;
    watched.start = trace_start;
    watched.notify_attributes = trace_attributes;
    watched.end = trace_end;
    return real_trace_registration->register_telemetry(&watched);
}

/* Where the component finds the service of this name. */
static void** required(const char* name) {
    struct placeholder* wanted = watched_component->requires_service;
    while (wanted->name != NULL && strcmp(wanted->name, name) != 0) {
        wanted++;
    }
    if (wanted->name == NULL) {
        dprintf(STDERR_FILENO, "tacho detector: the component does not use %s\n", name);
        abort();
    }
    return wanted->implementation;
}

static int watched_init(void) {
    void** registration = required("registry_registration");
    real_registration = *registration;
    watched_registration = *real_registration;
    watched_registration.register_service = register_service;
    void** traces = required("mysql_server_telemetry_traces_v1");
    real_trace_registration = *traces;
    watched_trace_registration = *real_trace_registration;
    watched_trace_registration.register_telemetry = register_telemetry;
    *registration = &watched_registration;
    *traces = &watched_trace_registration;
    const int result = real_init();
    /* The server gives back what it has given. */
    *registration = (void*)(uintptr_t)real_registration;
    *traces = (void*)(uintptr_t)real_trace_registration;
    return result;
}

static struct component* list(void) {
    struct component* component = real_list();
    if (component->init == watched_init) {
        return component;
    }
    watched_component = component;
    real_init = component->init;
    /* It may lie in memory that is read-only after relocation. */
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t)component & ~(page - 1);
    const uintptr_t end = ((uintptr_t)component + sizeof *component + page - 1) & ~(page - 1);
    if (mprotect((void*)start, end - start, PROT_READ | PROT_WRITE) != 0) {
        abort();
    }
    component->init = watched_init;
    return component;
}

void* detector_components(void* list_components) {
    real_list = (struct component * (*)(void))(uintptr_t)list_components;
    return (void*)(uintptr_t)list;
}
