// Zone: cold (declarations)
// SPDX-License-Identifier: GPL-2.0-only
//
// tacho_encryption_recipients_file.
#ifndef TACHO_MARIADB_ENCRYPTION_VARIABLE_H
#define TACHO_MARIADB_ENCRYPTION_VARIABLE_H

#include "adapter.h"

namespace tacho {

// For the plugin's list of variables.
extern st_mysql_sys_var* const kEncryptionRecipientsFileVariable;

// Takes the file of the variable into use. One that is wrong is told of in the error log, and
// closed files stay as they are.
void apply_encryption(const tacho_embed* recorder) noexcept;

// Forgets the value: the library is about to be unloaded.
void forget_encryption() noexcept;

} // namespace tacho

#endif
