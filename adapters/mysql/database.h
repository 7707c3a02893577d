// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// The current database of a session. The server provides it only as an allocated copy, except in
// CONNECTION events: so it is fetched once, and again after it may have changed.
#ifndef TACHO_MYSQL_DATABASE_H
#define TACHO_MYSQL_DATABASE_H

#include "session.h"

namespace tacho {

tacho_bytes database_of(MYSQL_THD thd, uint64_t conn) noexcept;

// The same, if this thread knows it; otherwise empty: it would have to be fetched.
tacho_bytes known_database(uint64_t conn) noexcept;

// Stores the name from an event.
void keep_database(uint64_t conn, tacho_bytes name) noexcept;

// The next statement of the session may have another database.
void forget_database(uint64_t conn) noexcept;

} // namespace tacho

#endif
