// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "event_classes.h"

#include "../common/message.h"
#include "../common/settings.h"
#include "adapter.h"

#include <cstddef>
#include <cstdio>
#include <cstring>

#include <strings.h>

namespace tacho {

uint32_t g_event_classes;

namespace {

struct Word {
    const char* text;
    uint32_t classes;
};

constexpr Word kWords[] = {
    {"AUTHENTICATION", kClassAuthentication},
    {"GLOBAL_VARIABLE", kClassGlobalVariable},
    {"LIFECYCLE", kClassLifecycle},
    {"MESSAGE", kClassMessage},
    {"STORED_PROGRAM", kClassStoredProgram},
    {"ALL", kClassAuthentication | kClassGlobalVariable | kClassLifecycle | kClassMessage |
                kClassStoredProgram},
};

// 0: unknown.
uint32_t classes_of(const char* word, size_t bytes) noexcept {
    for (const Word& known : kWords) {
        if (strlen(known.text) == bytes && strncasecmp(known.text, word, bytes) == 0) {
            return known.classes;
        }
    }
    return 0;
}

} // namespace

bool read_event_classes() noexcept {
    static const char kBetween[] = ", \t";
    g_event_classes = 0;
    if (variable_number(TACHO_SETTING_TABLES) != 0) {
        g_event_classes = kClassTableAccess;
    }
    const char* rest = variable_text(TACHO_SETTING_EVENT_CLASSES);
    for (rest += strspn(rest, kBetween); *rest != '\0'; rest += strspn(rest, kBetween)) {
        const size_t bytes = strcspn(rest, kBetween);
        const uint32_t classes = classes_of(rest, bytes);
        if (classes == 0) {
            char word[64];
            snprintf(word, sizeof(word), "%.*s", static_cast<int>(bytes), rest);
            log(kError,
                TACHO_VARIABLE("event_classes") ": `%s` is not one of AUTHENTICATION, "
                                                "GLOBAL_VARIABLE, LIFECYCLE, MESSAGE, "
                                                "STORED_PROGRAM, ALL",
                word);
            return false;
        }
        g_event_classes |= classes;
        rest += bytes;
    }
    return true;
}

} // namespace tacho
