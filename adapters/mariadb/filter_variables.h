// Zone: cold (declarations)
// SPDX-License-Identifier: GPL-2.0-only
//
// tacho_filter and tacho_filter_file.
#ifndef TACHO_MARIADB_FILTER_VARIABLES_H
#define TACHO_MARIADB_FILTER_VARIABLES_H

#include "adapter.h"

namespace tacho {

// For the plugin's list of variables.
extern st_mysql_sys_var* const kFilterVariable;
extern st_mysql_sys_var* const kFilterFileVariable;

// Takes the filter of the variables into use. One that is wrong is told of in the error log, and
// everything is recorded.
void apply_filter(const tacho_embed* recorder) noexcept;

// Forgets the values: the library is about to be unloaded.
void forget_filter() noexcept;

} // namespace tacho

#endif
