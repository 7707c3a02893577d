// Zone: hot (notify), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL8_EVENTS_H
#define TACHO_MYSQL8_EVENTS_H

#include "../common/server_compat.h"

namespace tacho {

// The server calls this for each event. Not 0: a rule blocks the statement.
int notify(MYSQL_THD thd, mysql_event_class_t event_class, const void* event) noexcept;

// Compares the server's numbers of SQL commands with the adapter's. After sql_commands_load, before
// the first event.
void check_command_numbers() noexcept;

} // namespace tacho

#endif
