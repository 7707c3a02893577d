// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The account that does something, from the server's session object.
#ifndef TACHO_WHO_H
#define TACHO_WHO_H

#include "adapter.h"

// Exported by the server for its plugins, declared in no public header (sql_class.cc).
extern "C" {
const char* thd_user_name(MYSQL_THD thd);
const char* thd_client_host(MYSQL_THD thd);
const char* thd_client_ip(MYSQL_THD thd);
const char* thd_priv_user(MYSQL_THD thd, size_t* length);
}

namespace tacho {

// The account of a session; the server itself (a start, the event scheduler) has no name. The
// strings are valid until the session's user changes.
inline tacho_who who_of(MYSQL_THD thd) noexcept {
    if (thd == nullptr) {
        return {};
    }
    size_t length = 0;
    return {thd_get_thread_id(thd), thd_user_name(thd), thd_priv_user(thd, &length),
            thd_client_host(thd), thd_client_ip(thd)};
}

} // namespace tacho

#endif
