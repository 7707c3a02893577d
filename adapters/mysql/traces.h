// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL_TRACES_H
#define TACHO_MYSQL_TRACES_H

#include "../common/settings.h"
#include "services.h"

namespace tacho {

// Takes the server's traces, or leaves them: from the next command of each session on. What runs
// stays as it is. One of enum tacho_traces.
void apply_traces(uint64_t traces) noexcept;

} // namespace tacho

#endif
