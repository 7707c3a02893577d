// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// The parts of an event that do not depend on the server.
#ifndef TACHO_COMMON_EVENT_H
#define TACHO_COMMON_EVENT_H

#include "tacho_probe.h"

#include <cstring>
#include <ctime>

namespace tacho {

// Static: the compiler then optimises each for its callers, as if it was defined beside them.

static inline int64_t microseconds(clockid_t clock) noexcept {
    timespec now;
    clock_gettime(clock, &now);
    // Unsigned: then the division by a constant is shorter.
    return static_cast<int64_t>(now.tv_sec) * 1000000 + static_cast<uint32_t>(now.tv_nsec) / 1000;
}

static inline tacho_bytes bytes_of(const char* text) noexcept {
    return {text, text == nullptr ? 0 : strlen(text)};
}

static inline tacho_bytes bytes_of(const char* text, size_t length) noexcept {
    return {text, text == nullptr ? 0 : length};
}

// An end is joined with its start by the address of the statement's text.
static inline uint64_t text_id(const char* text) noexcept {
    return reinterpret_cast<uint64_t>(text);
}

// All of an event except the strings and the figures: the probe reads neither in an END without
// TACHO_PRESENT_FIGURES. Member by member: for a whole object the compiler generates a slow `rep
// stos`.
static inline void begin_event(uint32_t kind, uint64_t conn, int64_t now_us,
                               tacho_event* out) noexcept {
    out->kind = kind;
    out->present = 0;
    out->conn = conn;
    out->query_id = 0;
    out->text_id = 0;
    out->ts_us = now_us;
    out->sql_command = -1;
    out->error_code = 0;
    memset(out->sqlstate, 0, sizeof(out->sqlstate));
    out->shown_bytes = 0;
    out->reserved = 0;
    out->text = {nullptr, 0};
}

static inline void clear_strings(tacho_event* out) noexcept {
    memset(out->strings, 0, sizeof(out->strings));
}

} // namespace tacho

#endif
