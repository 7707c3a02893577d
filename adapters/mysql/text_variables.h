// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The variables that are texts and can change (../common/text_settings.h).
#ifndef TACHO_MYSQL_TEXT_VARIABLES_H
#define TACHO_MYSQL_TEXT_VARIABLES_H

namespace tacho {

bool register_text_variables() noexcept;
// False: one is in use by a statement.
bool unregister_text_variables() noexcept;

} // namespace tacho

#endif
