// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// SQL functions that load, check and show rewrite rules; the procedure tacho.load_rewrite_rules
// (rewrite_rules.sql) calls them.
#ifndef TACHO_MYSQL_REWRITE_FUNCTIONS_H
#define TACHO_MYSQL_REWRITE_FUNCTIONS_H

#include "tacho_embed.h"

namespace tacho {

// Registers them. If the server refuses one, the error log reports it: recording does not depend on
// them.
void open_rewrite_functions(const tacho_embed* recorder) noexcept;

// When this returns, none of them uses the recorder or a service any more. A function that a
// statement still uses is removed when the statement ends.
void close_rewrite_functions() noexcept;

} // namespace tacho

#endif
