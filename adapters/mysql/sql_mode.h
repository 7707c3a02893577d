// Zone: hot (sql_modes_of), cold (find_sql_mode)
// SPDX-License-Identifier: GPL-2.0-only
//
// How a session's statements are read: no event and no service of both releases tells its sql_mode
// without a copy and a lock, and a rule that rewrites has to know what is a string.
#ifndef TACHO_MYSQL_SQL_MODE_H
#define TACHO_MYSQL_SQL_MODE_H

#include "services.h"

#include <cstdint>

namespace tacho {

// Finds its place in a session. Before the first event.
void find_sql_mode() noexcept;

// TACHO_REWRITE_*: of what the session executes now. One load.
uint32_t sql_modes_of(MYSQL_THD thd) noexcept;

} // namespace tacho

#endif
