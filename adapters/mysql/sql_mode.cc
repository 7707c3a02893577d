// Zone: hot (sql_modes_of), cold (find_sql_mode)
// SPDX-License-Identifier: GPL-2.0-only
//
// The server exports a function that tests two bits of a session's sql_mode, and reads nothing
// else: `return thd->variables.sql_mode & (MODE_STRICT_TRANS_TABLES | MODE_STRICT_ALL_TABLES)`. It
// is called with a fake session, zero except for one word: the word that changes its result is
// sql_mode. Each of the 64 bits is tested there, so that the position is either right or unknown.
#include "sql_mode.h"

#include "../common/message.h"
#include "tacho_probe.h"

#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

namespace tacho {

namespace {

// Numbers that stored programs keep in the data dictionary: they are stable.
constexpr uint64_t kAnsiQuotes = 1ULL << 2;
constexpr uint64_t kNoBackslashEscapes = 1ULL << 20;
constexpr uint64_t kStrictTransTables = 1ULL << 21;
constexpr uint64_t kStrictAllTables = 1ULL << 22;
constexpr uint64_t kStrict = kStrictTransTables | kStrictAllTables;

// Much larger than a session: everything that the function reads lies within.
constexpr size_t kWords = 65536;
constexpr size_t kNotKnown = SIZE_MAX;

using IsStrict = bool (*)(const void* session);

// In words, from the beginning of a session.
size_t g_place = kNotKnown;

// The one word that the result depends on.
size_t find(IsStrict is_strict, uint64_t* made_up) noexcept {
    if (is_strict(made_up)) {
        return kNotKnown;
    }
    size_t found = kNotKnown;
    for (size_t place = 0; place < kWords; ++place) {
        made_up[place] = kStrict;
        const bool depends = is_strict(made_up);
        made_up[place] = 0;
        if (depends && found != kNotKnown) {
            return kNotKnown;
        }
        found = depends ? place : found;
    }
    return found;
}

bool is_right(IsStrict is_strict, uint64_t* made_up, size_t place) noexcept {
    for (uint64_t bit = 1; bit != 0; bit <<= 1) {
        made_up[place] = bit;
        if (is_strict(made_up) != ((bit & kStrict) != 0)) {
            return false;
        }
    }
    return true;
}

size_t find_with(IsStrict is_strict) noexcept {
    auto* made_up = static_cast<uint64_t*>(calloc(kWords, sizeof(uint64_t)));
    if (made_up == nullptr) {
        return kNotKnown;
    }
    const size_t found = find(is_strict, made_up);
    const bool right = found != kNotKnown && is_right(is_strict, made_up, found);
    free(made_up);
    return right ? found : kNotKnown;
}

} // namespace

void find_sql_mode() noexcept {
    const auto is_strict = reinterpret_cast<IsStrict>(dlsym(RTLD_DEFAULT, symbols::kIsStrictMode));
    g_place = is_strict == nullptr ? kNotKnown : find_with(is_strict);
    if (g_place == kNotKnown) {
        log(kWarning, "%s",
            "this server does not provide the sql_mode of a session: rules that rewrite leave "
            "statements alone that have a double quote, or a backslash in quotes");
    }
}

uint32_t sql_modes_of(MYSQL_THD thd) noexcept {
    if (thd == nullptr || g_place == kNotKnown) {
        return TACHO_REWRITE_MODE_UNKNOWN;
    }
    uint64_t sql_mode = 0;
    memcpy(&sql_mode, reinterpret_cast<const char*>(thd) + g_place * sizeof(sql_mode),
           sizeof(sql_mode));
    uint32_t modes = 0;
    if ((sql_mode & kAnsiQuotes) != 0) {
        modes |= TACHO_REWRITE_ANSI_QUOTES;
    }
    if ((sql_mode & kNoBackslashEscapes) != 0) {
        modes |= TACHO_REWRITE_NO_BACKSLASH_ESCAPES;
    }
    return modes;
}

} // namespace tacho
