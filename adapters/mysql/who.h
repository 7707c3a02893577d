// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The account that does something, from the server's session object.
#ifndef TACHO_MYSQL_WHO_H
#define TACHO_MYSQL_WHO_H

#include "adapter.h"
#include "session.h"

namespace tacho {

// The account of a session; the server itself (a start) has no name. The strings are valid until
// the session's user changes.
inline tacho_who who_of(MYSQL_THD thd) noexcept {
    tacho_who who = {};
    if (thd == nullptr) {
        return who;
    }
    who.conn = current_conn();
    const Identity identity = identity_of(thd);
    who.user = identity.user.str;
    who.priv_user = identity.priv_user.str;
    who.host = identity.host.str;
    who.ip = identity.ip.str;
    return who;
}

} // namespace tacho

#endif
