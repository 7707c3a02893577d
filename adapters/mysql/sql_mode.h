// Zone: hot (sql_modes_of), cold (find_sql_mode)
// SPDX-License-Identifier: GPL-2.0-only
//
// The sql_mode of a session: no event and no service of both releases reports it without a copy and
// a lock, and a rewrite rule must know what is a string.
#ifndef TACHO_MYSQL_SQL_MODE_H
#define TACHO_MYSQL_SQL_MODE_H

#include "services.h"

#include <cstdint>

namespace tacho {

// Finds its position in a session. Before the first event.
void find_sql_mode() noexcept;

// TACHO_REWRITE_* of the session's current statement. One load.
uint32_t sql_modes_of(MYSQL_THD thd) noexcept;

} // namespace tacho

#endif
