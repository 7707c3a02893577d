// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// Functions in SQL by which rules that rewrite are loaded, checked and shown; the procedure
// tacho.load_rewrite_rules (rewrite_rules.sql) calls them.
#ifndef TACHO_MYSQL_REWRITE_FUNCTIONS_H
#define TACHO_MYSQL_REWRITE_FUNCTIONS_H

#include "tacho_embed.h"

namespace tacho {

// From now on they are there. What the server does not take is told in the error log: recording
// does not depend on it.
void open_rewrite_functions(const tacho_embed* recorder) noexcept;

// When this returns none of them uses the recorder any more, nor any service. One that a statement
// still uses goes when that ends.
void close_rewrite_functions() noexcept;

} // namespace tacho

#endif
