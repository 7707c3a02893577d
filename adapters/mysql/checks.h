// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// What is asked of a value before a variable takes it. The server has functions of its own for
// this, which do not ask who sets it.
#ifndef TACHO_MYSQL_CHECKS_H
#define TACHO_MYSQL_CHECKS_H

#include "services.h"

#include <cstdint>

namespace tacho {

// For a setting that can change and is not a text, by enum tacho_setting.
mysql_sys_var_check_func check_of(int32_t number) noexcept;

} // namespace tacho

#endif
