// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// The loads, inline: they run at the end of each statement. figures_calibrate.cc explains the
// sources and why they are sound.
#ifndef TACHO_MARIADB_FIGURES_READ_H
#define TACHO_MARIADB_FIGURES_READ_H

#include "figures.h"
#include "figures_layout.h"

namespace tacho {

// MariaDB adds the rows sent so far a second time whenever a stored function or trigger returns: n
// rows become up to 2^n - 1 (THD::restore_sub_statement_state). The slow log and the Performance
// Schema show the same. Counts that this cannot have affected are exact, others are left out.
[[gnu::always_inline]] inline bool is_count_of_sent_right(const THD* thd,
                                                          const FiguresLayout& layout,
                                                          uint64_t rows_sent, int sqlcom) noexcept {
    if (rows_sent <= 1) {
        return true;
    }
    const auto command = static_cast<size_t>(sqlcom);
    return command < kSqlCommandsMax && !layout.runs_others[command] &&
           load<const void*>(thd, layout.function_cache) == nullptr &&
           load<const void*>(thd, layout.package_cache) == nullptr;
}

[[gnu::always_inline]] inline void read_rows(const THD* thd, const FiguresLayout& layout,
                                             int sqlcom, uint32_t wanted, Figures* out) noexcept {
    if ((wanted & kFigureRowsSent) != 0) {
        const uint64_t rows_sent = load<uint64_t>(thd, layout.rows_sent);
        if (is_count_of_sent_right(thd, layout, rows_sent, sqlcom)) {
            out->rows_sent = rows_sent;
            out->present |= kFigureRowsSent;
        }
    }
    if ((wanted & kFigureRowsExamined) != 0) {
        out->rows_examined = load<uint64_t>(thd, layout.rows_examined);
        out->present |= kFigureRowsExamined;
    }
}

// As in the slow log: from the start of the statement, and the part until tables were locked plus
// waits for row locks. Inside a routine the start is that of the calling statement, so both are
// left out there.
[[gnu::always_inline]] inline void read_times(const THD* thd, const FiguresLayout& layout,
                                              uint32_t wanted, uint64_t now_us,
                                              Figures* out) noexcept {
    if (load<const void*>(thd, layout.routine) != nullptr) {
        return;
    }
    const uint64_t start_us = load<uint64_t>(thd, layout.start_us);
    const uint64_t after_lock_us = load<uint64_t>(thd, layout.after_lock_us);
    // A THD that never ran a statement has zero there, and no statement waited longer than it took.
    if (start_us == 0 || start_us > now_us) {
        return;
    }
    if ((wanted & kFigureQueryTime) != 0) {
        out->query_time_us = now_us - start_us;
        out->present |= kFigureQueryTime;
    }
    if ((wanted & kFigureLockTime) != 0 && start_us <= after_lock_us && after_lock_us <= now_us) {
        out->lock_time_us = after_lock_us - start_us;
        out->present |= kFigureLockTime;
    }
}

[[gnu::always_inline]] inline void read_outcome(const THD* thd, const FiguresLayout& layout,
                                                uint32_t wanted, Figures* out) noexcept {
    const void* diagnostics = load<const void*>(thd, layout.diagnostics);
    const uint32_t status = load<uint32_t>(diagnostics, layout.status);
    if (status == layout.status_ok && (wanted & kFigureRowsAffected) != 0) {
        out->rows_affected = load<uint64_t>(diagnostics, layout.affected);
        out->present |= kFigureRowsAffected;
    } else if (status == layout.status_error && (wanted & kFigureError) != 0) {
        out->errno_ = load<uint32_t>(diagnostics, layout.error_number);
        memcpy(out->sqlstate, static_cast<const char*>(diagnostics) + layout.sqlstate,
               sizeof(out->sqlstate));
        out->present |= kFigureError;
    }
}

// Whether `thd` is executing a statement of a stored procedure, function, trigger, event or
// compound statement, rather than one of the client. Correct in every event of the thread's own
// statement. False if figures_available lacks kFigureNested.
inline bool figures_nested(const THD* thd) noexcept {
    const FiguresLayout& layout = g_figures_layout;
    return (layout.available & kFigureNested) != 0 && thd != nullptr &&
           load<const void*>(thd, layout.routine) != nullptr;
}

// Reads the figures of the statement that `thd` is just ending.
// Runs on: the thread that executes the statement, inside its GENERAL_STATUS event. Elsewhere, or
//   later, the members belong to another statement or to another thread.
// `sqlcom`: thd_sql_command(thd). `wanted`: kFigure* bits, kFiguresAll or kFiguresOfBulk.
// `now_us`: CLOCK_MONOTONIC, us, the clock of the server's start_utime.
// Loads and compares only: no call, no lock, no allocation, no system call.
[[gnu::always_inline]] inline void figures_read(const THD* thd, int sqlcom, uint32_t wanted,
                                                uint64_t now_us, Figures* out) noexcept {
    *out = Figures{};
    const FiguresLayout& layout = g_figures_layout;
    wanted &= layout.available;
    if (thd == nullptr) {
        return;
    }
    read_rows(thd, layout, sqlcom, wanted, out);
    if ((wanted & (kFigureQueryTime | kFigureLockTime)) != 0) {
        read_times(thd, layout, wanted, now_us, out);
    }
    if ((wanted & (kFigureRowsAffected | kFigureError)) != 0) {
        read_outcome(thd, layout, wanted, out);
    }
}

} // namespace tacho

#endif
