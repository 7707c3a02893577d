// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// Persisted variables, as far as init can see them: it must not query the server, which holds its
// locks of plugins and variables.
#include "persisted.h"

#include "../mysql/adapter.h"
#include "../mysql/session.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tacho {

namespace {

// In the data directory, which is the working directory. The server writes it with each SET
// PERSIST.
constexpr char kFile[] = "mysqld-auto.cnf";
// Format of all supported releases, and names of groups in it whose variables can be set while the
// server runs.
constexpr char kFormat[] = "\"Version\": 2";
constexpr const char* kGroups[] = {"\"mysql_dynamic", "sensitive"};

// If unsure: yes.
bool has_dynamic(const char* text) noexcept {
    if (strstr(text, kFormat) == nullptr) {
        return true;
    }
    for (const char* group : kGroups) {
        if (strstr(text, group) != nullptr) {
            return true;
        }
    }
    return false;
}

bool has_dynamic_file() noexcept {
    FILE* file = fopen(kFile, "re");
    if (file == nullptr) {
        return errno != ENOENT;
    }
    // The groups whose variables cannot be set while the server runs are short. A longer file
    // counts as one with other groups.
    char text[16384];
    const size_t bytes = fread(text, 1, sizeof(text), file);
    const bool is_whole = ferror(file) == 0 && bytes < sizeof(text);
    fclose(file);
    if (!is_whole) {
        return true;
    }
    text[bytes] = '\0';
    return has_dynamic(text);
}

} // namespace

bool sets_persisted_after_init() noexcept {
    // INSTALL PLUGIN is a statement of a session. A starting server has one without a number.
    MYSQL_THD thd = current_session();
    return thd != nullptr && thd_get_thread_id(thd) != 0 && has_dynamic_file();
}

} // namespace tacho
