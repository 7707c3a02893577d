// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// Messages of an adapter in the server's error log, and the paths in its settings.
#ifndef TACHO_COMMON_MESSAGE_H
#define TACHO_COMMON_MESSAGE_H

#include "tacho_embed.h"

#include <climits>
#include <cstdio>

#include <unistd.h>

namespace tacho {

// How long a stopping adapter waits for a log that cannot be written. The rest stays in the arena.
constexpr uint64_t kStopTimeoutMs = 10000;

constexpr tacho_severity kNote = TACHO_SEVERITY_NOTE;
constexpr tacho_severity kWarning = TACHO_SEVERITY_WARNING;
constexpr tacho_severity kError = TACHO_SEVERITY_ERROR;

inline void log(tacho_severity severity, const char* format, const char* text) noexcept {
    char message[PATH_MAX + 256];
    snprintf(message, sizeof(message), format, text);
    tacho_embed_log(severity, message);
}

// The server's working directory is its data directory, the base of relative paths.
inline bool absolute_path(const char* given, char* path, size_t bytes) noexcept {
    if (given[0] == '/') {
        return snprintf(path, bytes, "%s", given) < static_cast<int>(bytes);
    }
    char here[PATH_MAX];
    if (getcwd(here, sizeof(here)) == nullptr) {
        return false;
    }
    return snprintf(path, bytes, "%s/%s", here, given) < static_cast<int>(bytes);
}

} // namespace tacho

#endif
