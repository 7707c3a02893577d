// Zone: cold (declarations)
// SPDX-License-Identifier: GPL-2.0-only
//
// The variables that are texts and can change (../common/text_settings.h), for the plugin's list.
#ifndef TACHO_MARIADB_TEXT_VARIABLES_H
#define TACHO_MARIADB_TEXT_VARIABLES_H

#include "adapter.h"

namespace tacho {

extern st_mysql_sys_var* const kFilterVariable;
extern st_mysql_sys_var* const kFilterFileVariable;
extern st_mysql_sys_var* const kEncryptionRecipientsFileVariable;

} // namespace tacho

#endif
