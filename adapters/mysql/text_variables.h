// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The variables that are texts and can change: the filter, its file, and who may read closed files.
#ifndef TACHO_MYSQL_TEXT_VARIABLES_H
#define TACHO_MYSQL_TEXT_VARIABLES_H

#include "adapter.h"

namespace tacho {

bool register_text_variables() noexcept;
// False: one is in use by a statement.
bool unregister_text_variables() noexcept;
// No value of ours is shown any more. None is freed: who shows them may be copying one.
void forget_text_variables() noexcept;
// What the server's configuration says, to a recorder that was just started; before logging is on.
void apply_text_variables(const tacho_embed* recorder) noexcept;

} // namespace tacho

#endif
