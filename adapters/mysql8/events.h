// Zone: hot (notify), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL8_EVENTS_H
#define TACHO_MYSQL8_EVENTS_H

#include "../common/server_compat.h"

namespace tacho {

// What the server calls for each event. Always 0: an event is never refused.
int notify(MYSQL_THD thd, mysql_event_class_t event_class, const void* event) noexcept;

// Where the server has the names of SQL commands. Before the first event.
void find_command_names() noexcept;

} // namespace tacho

#endif
