// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL_TRACES_H
#define TACHO_MYSQL_TRACES_H

#include "../common/settings.h"
#include "services.h"

namespace tacho {

// Subscribes to the server's traces or unsubscribes, from the next command of each session on.
// Running commands are not affected. One of enum tacho_traces.
void apply_traces(uint64_t traces) noexcept;

} // namespace tacho

#endif
