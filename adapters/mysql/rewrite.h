// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Rules that rewrite (docs/specs/rewrite.md): whether the server parses another text than the one
// that came. Where there is no rule, that costs a look at one word; where there are some, and none
// of this statement, what tacho_probe_rewrite says.
//
// Only a statement that is rewritten takes a slow path: its new text comes from the server's
// allocator, which frees it.
#ifndef TACHO_MYSQL_REWRITE_H
#define TACHO_MYSQL_REWRITE_H

#include "session.h"

namespace tacho {

// Looks up what the server exports. Before the first event.
void load_rewrite() noexcept;

// Puts the new text into the event, and into the arena if the statement is recorded.
void rewrite(const tacho_probe* probe, mysql_event_tracking_parse_data* in) noexcept;

} // namespace tacho

#endif
