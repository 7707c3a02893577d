// Zone: hot (types and one inline load)
// SPDX-License-Identifier: GPL-2.0-only
//
// The result of figures_calibrate.cc, for figures_read.h.
#ifndef TACHO_MARIADB_FIGURES_LAYOUT_H
#define TACHO_MARIADB_FIGURES_LAYOUT_H

#include <cstdint>
#include <cstring>

#include "sql_commands.h"

namespace tacho {

// Offsets of the running server. Written once by figures_calibrate, before the server can deliver
// an event to the plugin; only read afterwards.
struct FiguresLayout {
    uint32_t available; // kFigure* bits whose offsets below are known.
    // In THD:
    uint32_t rows_sent;
    uint32_t rows_examined;
    uint32_t start_us;
    uint32_t after_lock_us;
    uint32_t diagnostics;    // Pointer to the statement's Diagnostics_area.
    uint32_t routine;        // Pointer to the context of the running stored routine, null outside.
    uint32_t function_cache; // Pointers that are null until the session first uses a stored
    uint32_t package_cache;  // function, or a package.
    // In Diagnostics_area:
    uint32_t status;
    uint32_t affected;
    uint32_t error_number;
    uint32_t sqlstate;
    uint32_t status_ok; // Values of status.
    uint32_t status_error;
    // By sql_command: may execute triggers or other statements.
    bool runs_others[kSqlCommandsMax];
};

extern FiguresLayout g_figures_layout;

template <class Value> inline Value load(const void* object, uint32_t offset) noexcept {
    Value value;
    memcpy(&value, static_cast<const char*>(object) + offset, sizeof(value));
    return value;
}

} // namespace tacho

#endif
