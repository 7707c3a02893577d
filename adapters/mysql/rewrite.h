// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Rewrite rules (docs/specs/rewrite.md): whether the server parses another text than the received
// one. Without rules this costs one load; with rules that do not match the statement, the cost of
// tacho_probe_rewrite.
//
// Only a rewritten statement takes a slow path: its new text comes from the server's allocator,
// because the server frees it.
#ifndef TACHO_MYSQL_REWRITE_H
#define TACHO_MYSQL_REWRITE_H

#include "session.h"

namespace tacho {

// Looks up symbols of the server. Before the first event.
void load_rewrite() noexcept;

// Puts the new text into the event, and into the arena if the statement is recorded.
void rewrite(const tacho_probe* probe, mysql_event_tracking_parse_data* in) noexcept;

} // namespace tacho

#endif
