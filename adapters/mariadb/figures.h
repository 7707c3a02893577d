// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The figures of a statement that MariaDB's audit API does not provide: rows, times, outcome.
//
// They are members of THD, whose layout differs between builds of the server. No layout is compiled
// in: figures_calibrate finds the members in the running server, by calling the server's own
// exported setters on a private THD and observing which word changes. A figure that cannot be found
// with certainty is left out, and `present` shows this for each figure.
// docs/decisions/2026-11-21-statement-figures.md has the reasons and the known differences.
#ifndef TACHO_MARIADB_FIGURES_H
#define TACHO_MARIADB_FIGURES_H

#include <cstddef>
#include <cstdint>

class THD;

namespace tacho {

// Bits of Figures::present.
constexpr uint32_t kFigureRowsSent = 1U << 0;
constexpr uint32_t kFigureRowsExamined = 1U << 1;
constexpr uint32_t kFigureRowsAffected = 1U << 2; // The statement ended with an OK packet.
constexpr uint32_t kFigureQueryTime = 1U << 3;
constexpr uint32_t kFigureLockTime = 1U << 4;
constexpr uint32_t kFigureError = 1U << 5;  // errno_ and sqlstate: it ended with an error.
constexpr uint32_t kFigureNested = 1U << 6; // Only in figures_available: figures_nested works.

constexpr uint32_t kFiguresAll = (1U << 7) - 1;
// The figures of a STATUS event whose general_command is "Bulk_execute". The server raises one for
// each row of parameters without restarting counts and clocks: all except the error are running
// totals of the client's packet.
constexpr uint32_t kFiguresOfBulk = kFigureError;

struct Figures {
    uint64_t rows_sent;
    uint64_t rows_examined;
    uint64_t rows_affected;
    uint64_t query_time_us;
    uint64_t lock_time_us;
    uint32_t errno_;
    char sqlstate[5]; // Not terminated.
    uint32_t present; // A member without its bit is zero and means nothing.
};

// Finds the figures in this server.
// Runs on: any thread, once per load of the plugin, after sql_commands_load (which it needs for
//   rows_sent) and before the first figures_read; in the plugin's init function, at INSTALL as well
//   as at server start. Not in the update function of a system variable: the server holds
//   LOCK_global_system_variables there, which the creation of a THD takes.
// Blocks: a few milliseconds, for the thread that it starts and joins.
// On failure: `why` (terminated, truncated to why_bytes) says which figures are not available and
// for
//   what reason; returns false unless the only reason is that this release does not offer them. The
//   others are read nevertheless.
bool figures_calibrate(char* why, size_t why_bytes) noexcept;

// The bits of kFigure* that this server can provide.
uint32_t figures_available() noexcept;

} // namespace tacho

#endif
