// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL8_VARIABLES_H
#define TACHO_MYSQL8_VARIABLES_H

#include "../common/server_compat.h"

namespace tacho {

// What the server reads when it has loaded the library, before init; ends with null.
extern SYS_VAR* g_system_variables[];

// Whether there was room for all of them.
bool variables_are_complete() noexcept;

} // namespace tacho

#endif
