// Zone: cold (declarations)
// SPDX-License-Identifier: GPL-2.0-only
//
// The variables that are texts and can change: their check and update functions.
#ifndef TACHO_MARIADB_TEXT_VARIABLES_H
#define TACHO_MARIADB_TEXT_VARIABLES_H

#include "../common/text_settings.h"
#include "adapter.h"

namespace tacho {

int check_text_variable(TextNumber number, MYSQL_THD thd, void* save,
                        st_mysql_value* value) noexcept;
void update_text_variable(TextNumber number, MYSQL_THD thd, const void* save) noexcept;

} // namespace tacho

#endif
