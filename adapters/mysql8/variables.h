// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL8_VARIABLES_H
#define TACHO_MYSQL8_VARIABLES_H

#include "../common/server_compat.h"

namespace tacho {

// The server reads this after it has loaded the library, before init; ends with null.
extern SYS_VAR* g_system_variables[];

// Whether all variables fit into the array.
bool variables_are_complete() noexcept;

} // namespace tacho

#endif
