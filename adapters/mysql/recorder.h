// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// Starts the recorder in a MySQL server from its variables; the same for the component and the
// plugin.
#ifndef TACHO_MYSQL_RECORDER_H
#define TACHO_MYSQL_RECORDER_H

namespace tacho {

// Sets g_recorder. `server`: the server's name in the log. False: the error log has the reason.
bool start_recorder(const char* server) noexcept;

// Stops it, if it exists.
void stop_recorder() noexcept;

// Keeps this library mapped until the server ends. False: dlerror() has the reason.
bool keep_library() noexcept;

// Creates g_figure_names; the services must be available.
void make_figure_names() noexcept;
void free_figure_names() noexcept;

} // namespace tacho

#endif
