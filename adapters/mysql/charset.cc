// Zone: hot (charset_of), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// The service for attributes of a session compares names until it reaches that of the character
// set: 460 instructions. The server also exports a function that returns the character set, but the
// position of its name is known only from the header of one release. So the first session is
// queried both ways, and the function is used from then on only if both return the same name, at
// the same address.
#include "charset.h"

#include <atomic>
#include <cstring>

#include <dlfcn.h>
#include <mysql/strings/m_ctype.h>

namespace tacho {

namespace {

using ThdCharset = const CHARSET_INFO* (*)(MYSQL_THD);

ThdCharset g_found;
// Null: use the service. Relaxed: a thread gets the same name with either value.
std::atomic<ThdCharset> g_trusted{nullptr};
std::atomic<bool> g_tried{true};

[[gnu::cold, gnu::noinline]] void compare(MYSQL_THD thd, const tacho_bytes& name) noexcept {
    // For a text that the server created. There is also a collation of this name, and addresses are
    // compared.
    static const char kBinary[] = "binary";
    if (name.len == sizeof(kBinary) - 1 && memcmp(name.data, kBinary, name.len) == 0) {
        return;
    }
    if (thd != nullptr && name.data != nullptr && g_found(thd)->csname == name.data) {
        g_trusted.store(g_found, std::memory_order_relaxed);
    }
    g_tried.store(true, std::memory_order_relaxed);
}

} // namespace

void find_charset() noexcept {
    g_found = reinterpret_cast<ThdCharset>(dlsym(RTLD_DEFAULT, symbols::kThdCharset));
    g_trusted.store(nullptr, std::memory_order_relaxed);
    g_tried.store(g_found == nullptr, std::memory_order_relaxed);
}

tacho_bytes charset_as_shown(MYSQL_THD thd) noexcept {
    mysql_cstring_with_length name = {nullptr, 0};
    if (mysql_service_mysql_thd_attributes->get(thd, "query_charset", &name) != 0) {
        return {nullptr, 0};
    }
    return bytes_of(name);
}

tacho_bytes charset_of(MYSQL_THD thd) noexcept {
    const ThdCharset trusted = g_trusted.load(std::memory_order_relaxed);
    if (trusted != nullptr && thd != nullptr) {
        const char* name = trusted(thd)->csname;
        return bytes_of(name, strlen(name));
    }
    const tacho_bytes name = charset_as_shown(thd);
    if (!g_tried.load(std::memory_order_relaxed)) {
        compare(thd, name);
    }
    return name;
}

} // namespace tacho
