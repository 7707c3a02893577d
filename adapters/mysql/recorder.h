// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The recorder in a MySQL, from its variables; the same in a component and in a plugin.
#ifndef TACHO_MYSQL_RECORDER_H
#define TACHO_MYSQL_RECORDER_H

namespace tacho {

// Sets g_recorder. `server`: what the log calls it. False: why is in the error log.
bool start_recorder(const char* server) noexcept;

// Takes it away, if it is there.
void stop_recorder() noexcept;

// From now on this library stays mapped until the server ends. False: dlerror() says why.
bool keep_library() noexcept;

// g_figure_names, after the services are there.
void make_figure_names() noexcept;
void free_figure_names() noexcept;

} // namespace tacho

#endif
