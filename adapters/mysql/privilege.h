// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// TACHO_ADMIN: who may change the recorder. The server asks for SYSTEM_VARIABLES_ADMIN (or SUPER)
// for any global variable; this keeps those who have that, and are not to be trusted with the
// record of what they do, from it.
#ifndef TACHO_MYSQL_PRIVILEGE_H
#define TACHO_MYSQL_PRIVILEGE_H

#include "services.h"

namespace tacho {

// Makes the name known, so that it can be granted.
bool register_privilege() noexcept;
bool unregister_privilege() noexcept;

// Whether this session may change a setting: it has TACHO_ADMIN or SUPER. False: the server tells
// its client why.
bool may_change(MYSQL_THD thd) noexcept;

} // namespace tacho

#endif
