// Zone: hot (get), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// "thd_status" and "query_charset", by functions that 8.0 exports: each reads a word or two of the
// session, without allocation or lock.
#include "attributes.h"

#include "../mysql/services.h"

#include <cstring>

#include <dlfcn.h>

namespace tacho {

namespace {

using Attributes = SERVICE_TYPE(mysql_thd_attributes);

const Attributes* g_servers;
const CHARSET_INFO* (*g_thd_charset)(MYSQL_THD);

mysql_service_status_t get(MYSQL_THD thd, const char* name, void* out) noexcept {
    if (strcmp(name, "thd_status") == 0) {
        *static_cast<uint16_t*>(out) =
            thd_killed(thd) != 0 ? STATUS_SESSION_KILLED : STATUS_SESSION_OK;
        return 0;
    }
    if (strcmp(name, "query_charset") == 0) {
        if (thd == nullptr || g_thd_charset == nullptr) {
            return 1;
        }
        const char* charset = g_thd_charset(thd)->csname;
        *static_cast<mysql_cstring_with_length*>(out) = {charset, strlen(charset)};
        return 0;
    }
    return g_servers->get(thd, name, out);
}

SERVICE_TYPE_NO_CONST(mysql_thd_attributes) g_extended = {get, nullptr};

} // namespace

void extend_attributes() noexcept {
    g_servers = mysql_service_mysql_thd_attributes;
    g_thd_charset =
        reinterpret_cast<decltype(g_thd_charset)>(dlsym(RTLD_DEFAULT, symbols::kThdCharset));
    g_extended.set = g_servers->set;
    mysql_service_mysql_thd_attributes = &g_extended;
}

void restore_attributes() noexcept {
    if (g_servers != nullptr) {
        mysql_service_mysql_thd_attributes = g_servers;
        g_servers = nullptr;
    }
}

} // namespace tacho
