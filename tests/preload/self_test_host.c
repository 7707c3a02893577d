/* Zone: outside (tests only). Stands in for the server: loads a plugin as the server does and
 * sends it one event of each class. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

struct audit {
    int interface_version;
    void (*release_thd)(void* thd);
    void (*event_notify)(void* thd, unsigned int event_class, const void* event);
};

struct declaration {
    int type;
    struct audit* info;
};

int main(int argc, char** argv) {
    void* plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    struct declaration* first = plugin ? dlsym(plugin, "_maria_plugin_declarations_") : NULL;
    if (first == NULL) {
        fprintf(stderr, "usage: self_test_host PLUGIN\n");
        return 2;
    }
    for (unsigned int event_class = 0; event_class <= 7; event_class++) {
        errno = 0;
        first->info->event_notify(NULL, event_class, NULL);
        /* Outside of the callback everything is allowed. */
        printf("event %u\n", event_class);
    }
    return 0;
}
