/* Zone: outside.
 *
 * The part of the detector (detector.c) for a component of MySQL. The server asks dlsym for the
 * list of components, and gets it with the component's init replaced. That one puts itself between
 * the component and the registry: each event service that is registered is registered with a
 * callback of ours, which arms the thread, calls the real one and disarms it.
 */
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
  const char *name;
  void **implementation;
};
struct component {
  const char *name;
  void *provides;
  struct placeholder *requires_service;
  void *metadata;
  int (*init)(void);
  int (*deinit)(void);
};
struct registration {
  int (*register_service)(const char *name, void *service);
  int (*unregister)(const char *name);
  int (*set_default)(const char *name);
};
/* What all event services look like. */
struct event_service {
  int (*notify)(const void *event);
};

#define SERVICES_MAX 4
static struct event_service real_services[SERVICES_MAX];

#define WATCHED(number)                                     \
  static int watched_##number(const void *event) {          \
    const int before = detector_enter();                    \
    const int result = real_services[number].notify(event); \
    detector_leave(before);                                 \
    return result;                                          \
  }
WATCHED(0)
WATCHED(1)
WATCHED(2)
WATCHED(3)
static struct event_service watched_services[SERVICES_MAX] = {
    {watched_0}, {watched_1}, {watched_2}, {watched_3}};
static int service_count;

static struct component *(*real_list)(void);
static int (*real_init)(void);
static struct component *watched_component;
static const struct registration *real_registration;
static struct registration watched_registration;

static int register_service(const char *name, void *service) {
  if (strncmp(name, "event_tracking_", strlen("event_tracking_")) != 0) {
    return real_registration->register_service(name, service);
  }
  if (service_count == SERVICES_MAX) {
    dprintf(STDERR_FILENO, "tacho detector: more event services than it can watch\n");
    abort();
  }
  real_services[service_count] = *(const struct event_service *)service;
  return real_registration->register_service(name, &watched_services[service_count++]);
}

static int watched_init(void) {
  struct placeholder *wanted = watched_component->requires_service;
  while (wanted->name != NULL && strcmp(wanted->name, "registry_registration") != 0) {
    wanted++;
  }
  if (wanted->name == NULL) {
    dprintf(STDERR_FILENO, "tacho detector: the component registers no services itself\n");
    abort();
  }
  real_registration = *wanted->implementation;
  watched_registration = *real_registration;
  watched_registration.register_service = register_service;
  void *given = *wanted->implementation;
  *wanted->implementation = &watched_registration;
  const int result = real_init();
  /* The server gives back what it has given. */
  *wanted->implementation = given;
  return result;
}

static struct component *list(void) {
  struct component *component = real_list();
  if (component->init == watched_init) {
    return component;
  }
  watched_component = component;
  real_init = component->init;
  /* It may lie in memory that is read-only after relocation. */
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t start = (uintptr_t)component & ~(page - 1);
  const uintptr_t end = ((uintptr_t)component + sizeof *component + page - 1) & ~(page - 1);
  if (mprotect((void *)start, end - start, PROT_READ | PROT_WRITE) != 0) {
    abort();
  }
  component->init = watched_init;
  return component;
}

void *detector_components(void *list_components) {
  real_list = (struct component * (*)(void))(uintptr_t)list_components;
  return (void *)(uintptr_t)list;
}
