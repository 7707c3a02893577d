// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// The current database of a session. The server gives it as an allocated copy only, but for
// CONNECTION events: so it is asked for once, and again when it may have changed.
#ifndef TACHO_MYSQL_DATABASE_H
#define TACHO_MYSQL_DATABASE_H

#include "session.h"

namespace tacho {

tacho_bytes database_of(MYSQL_THD thd, uint64_t conn) noexcept;

// The same if this thread knows it; empty: it would have to be asked for.
tacho_bytes known_database(uint64_t conn) noexcept;

// An event has told it.
void keep_database(uint64_t conn, tacho_bytes name) noexcept;

// What the session runs next may have another one.
void forget_database(uint64_t conn) noexcept;

} // namespace tacho

#endif
