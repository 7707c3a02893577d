// Zone: cold (read_event_classes), hot (takes)
// SPDX-License-Identifier: GPL-2.0-only
//
// tacho.event_classes: which events are taken beside those of connections and statements.
#ifndef TACHO_MYSQL_EVENT_CLASSES_H
#define TACHO_MYSQL_EVENT_CLASSES_H

#include <cstdint>

namespace tacho {

// Bits of a set of classes.
enum EventClass : uint32_t {
    kClassAuthentication = 1,
    kClassGlobalVariable = 2,
    kClassLifecycle = 4,
    kClassMessage = 8,
    kClassStoredProgram = 16,
    // Asked for by tacho.tables.
    kClassTableAccess = 32,
};

// All that the settings ask for: read once, when recording starts. False: a word is none of them,
// and the error log says which.
bool read_event_classes() noexcept;

// Bits of what was asked for. Written before `open_visits` (visits.h), which what reads it has
// seen.
extern uint32_t g_event_classes;

// Whether one of these was asked for.
inline bool takes(uint32_t classes) noexcept {
    return (g_event_classes & classes) != 0;
}

} // namespace tacho

#endif
