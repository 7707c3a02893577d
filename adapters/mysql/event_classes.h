// Zone: cold (read_event_classes), hot (takes)
// SPDX-License-Identifier: GPL-2.0-only
//
// tacho.event_classes: events that are recorded besides those of connections and statements.
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
    // Requested by tacho.tables.
    kClassTableAccess = 32,
};

// Reads all classes that the settings request, once, when recording starts. False: an unknown word,
// which the error log names.
bool read_event_classes() noexcept;

// Bits of the requested classes. Written before `open_visits` (visits.h), which readers have seen.
extern uint32_t g_event_classes;

// Whether one of these classes was requested.
inline bool takes(uint32_t classes) noexcept {
    return (g_event_classes & classes) != 0;
}

} // namespace tacho

#endif
