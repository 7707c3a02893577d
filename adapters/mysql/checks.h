// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// What is asked of a value before a variable takes it. The server has functions of its own for
// this, which do not ask who sets it.
#ifndef TACHO_MYSQL_CHECKS_H
#define TACHO_MYSQL_CHECKS_H

#include "services.h"

#include <cstddef>

namespace tacho {

// For the setting at this place of kSettings.
mysql_sys_var_check_func check_of(size_t index) noexcept;

} // namespace tacho

#endif
