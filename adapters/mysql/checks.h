// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// Checks of a value before a variable takes it. The server's own check functions do not check the
// privilege.
#ifndef TACHO_MYSQL_CHECKS_H
#define TACHO_MYSQL_CHECKS_H

#include "services.h"

#include <cstdint>

namespace tacho {

// The check of a setting that can change and is not a text, by enum tacho_setting.
mysql_sys_var_check_func check_of(int32_t number) noexcept;

} // namespace tacho

#endif
