// Zone: hot (charset_of), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// The service for attributes of a session compares names until it comes to that of the character
// set: 460 instructions. The server exports a function that returns the character set; where its
// name lies in that is known from a header, which is that of one release. So the first session that
// is asked about is asked both ways, and only if they say the same name, at the same address, does
// the function answer from then on.
#include "charset.h"

#include <atomic>
#include <cstring>

#include <dlfcn.h>
#include <mysql/strings/m_ctype.h>

namespace tacho {

namespace {

using ThdCharset = const CHARSET_INFO* (*)(MYSQL_THD);

ThdCharset g_found;
// Null: the service answers. Relaxed: whoever sees either gets the same name.
std::atomic<ThdCharset> g_trusted{nullptr};
std::atomic<bool> g_tried{true};

[[gnu::cold, gnu::noinline]] void compare(MYSQL_THD thd, const tacho_bytes& name) noexcept {
    // Of a text that the server has made. Also, there is a collation of this name, and what is
    // compared is an address.
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
