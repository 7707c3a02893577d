// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The figures of a statement that MariaDB's audit API does not hand out: rows, times, outcome.
//
// They are members of THD, whose layout belongs to each build of the server. No layout is
// compiled in here: figures_calibrate asks the running server itself where it keeps them, by
// using its own exported setters on a THD of our own and looking which word changed. What
// cannot be found beyond doubt is left out, and `present` says so for every single figure.
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
constexpr uint32_t kFigureNested = 1U << 6; // Only in figures_available: figures_nested can tell.

constexpr uint32_t kFiguresAll = (1U << 7) - 1;
// What a STATUS event whose general_command is "Bulk_execute" tells of itself. The server raises
// one for each row of parameters and does not start the counts and clocks anew: all but the
// error are running totals of the client's packet.
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

// Finds out where this server keeps the figures.
// Runs on: any thread, once per load of the plugin, after sql_commands_load (which it needs for
//   rows_sent) and before the first figures_read; the plugin's
//   init function is the place, at INSTALL as well as at server start. Not from the update
//   function of a system variable: the server holds LOCK_global_system_variables there, which
//   the creation of a THD takes.
// Blocks: a few milliseconds, for the thread it starts and joins.
// On failure: says in `why` (terminated, cut to why_bytes) which figures are not available and for
//   what reason; returns false unless it is that this release does not offer them. The others
//   are read all the same.
bool figures_calibrate(char* why, size_t why_bytes) noexcept;

// The bits of kFigure* that this server can give at all.
uint32_t figures_available() noexcept;

} // namespace tacho

#endif
