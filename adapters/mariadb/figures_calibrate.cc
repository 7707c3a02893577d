// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// Why calibration is sound: every offset is the result of an experiment in which the server's own
// code wrote a random 64-bit value through its own setter, and exactly one word of the object
// received it, several times with different values. The experiments use objects that no other
// thread can access: background THDs created by the server's function for that purpose, and a
// Diagnostics_area in a private buffer. Members are read with write(2) into a pipe, which returns
// EFAULT where a load would crash. The offsets belong to the build, so they hold for every THD of
// the process, while the process lives.
#include "figures.h"
#include "figures_experiment.h"
#include "figures_layout.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "sql_commands.h"

namespace tacho {
namespace {

// Where a session keeps its stored functions, according to get_cache: a member, so at the same
// distance in each THD; null here, because these THDs have used none.
bool find_cache(Calibration* run, void** (*get_cache)(const void*, THD*),
                uint32_t* offset) noexcept {
    // The handler object has no members and get_cache needs none.
    static const uint64_t handler[8] = {};
    for (int n = 0; n < kThdCount; n++) {
        void** member = get_cache(handler, run->thds[n]);
        const uintptr_t distance =
            reinterpret_cast<uintptr_t>(member) - reinterpret_cast<uintptr_t>(run->thds[n]);
        if (distance >= kScanBytes || (n > 0 && distance != *offset) || *member != nullptr) {
            return false;
        }
        *offset = static_cast<uint32_t>(distance);
    }
    return true;
}

// Marks the commands whose execution may run triggers, or other statements of the user: for these,
// the effect on rows_sent described in figures_read.h cannot be excluded.
bool mark_commands(FiguresLayout* layout) noexcept {
    static const char* const names[] = {
        "insert",       "insert_select", "replace",           "replace_select", "delete",
        "delete_multi", "update",        "update_multi",      "load",           "call_procedure",
        "compound_sql", "execute_sql",   "execute_immediate",
    };
    for (const char* name : names) {
        bool found = false;
        for (int i = 0; i < sql_command_count(); i++) {
            if (strcmp(sql_command_name(i), name) == 0) {
                layout->runs_others[i] = true;
                found = true;
            }
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

void calibrate_rows_sent(Calibration* run) noexcept {
    const Server& server = run->server;
    FiguresLayout* layout = &run->layout;
    if (server.set_sent == nullptr) {
        run->not_offered |= kFigureRowsSent;
        complain(run, "rows_sent", "the server exports no setter");
    } else if (!find_word(run, server.set_sent, server.inc_sent, &layout->rows_sent)) {
        complain(run, "rows_sent", "not exactly one word of THD takes it");
    } else if (!mark_commands(layout)) {
        complain(run, "rows_sent", "the server's names of its commands are not known");
    } else if (server.function_cache == nullptr || server.package_cache == nullptr ||
               !find_cache(run, server.function_cache, &layout->function_cache) ||
               !find_cache(run, server.package_cache, &layout->package_cache)) {
        complain(run, "rows_sent", "the server does not show which sessions use functions");
    } else {
        layout->available |= kFigureRowsSent;
    }
}

void calibrate_rows_examined(Calibration* run) noexcept {
    const Server& server = run->server;
    if (server.set_examined == nullptr || server.inc_examined == nullptr) {
        run->not_offered |= kFigureRowsExamined;
        complain(run, "rows_examined", "the server exports no setter");
    } else if (!find_word(run, server.set_examined, server.inc_examined,
                          &run->layout.rows_examined)) {
        complain(run, "rows_examined", "not exactly one word of THD takes it");
    } else {
        run->layout.available |= kFigureRowsExamined;
    }
}

// THD::init_for_queries sets start_utime and utime_after_lock to the same reading of the clock. The
// latter is known from thd_storage_lock_wait, so the former is the other word with that value.
// Because the value lies between two readings made here, the clock is CLOCK_MONOTONIC in
// microseconds.
bool find_start(Calibration* run, uint32_t after_lock_us, uint32_t* start_us) noexcept {
    THD* thd = run->thds[0];
    const size_t after_lock_word = after_lock_us / sizeof(uint64_t);
    memset(run->candidate, 1, sizeof(run->candidate));
    run->candidate[after_lock_word] = 0;
    void* saved = run->server.attach_thd(thd);
    bool looked = true;
    for (int round = 0; looked && round < kRounds; round++) {
        // The clock must have advanced, or an unchanged word would look as if it was set.
        timespec pause = {0, 20 * 1000};
        nanosleep(&pause, nullptr);
        looked = look(run, thd, run->before);
        uint64_t earliest_us = monotonic_ns() / 1000;
        run->server.init_for_queries(thd);
        uint64_t latest_us = monotonic_ns() / 1000;
        looked = looked && look(run, thd, run->after);
        const uint64_t set_us = run->after[after_lock_word];
        looked = looked && set_us >= earliest_us && set_us <= latest_us;
        for (size_t i = 0; i < kScanWords; i++) {
            run->candidate[i] &= run->after[i] == set_us && run->before[i] != set_us ? 1 : 0;
        }
    }
    run->server.detach_thd(saved);
    return looked && only_candidate(run->candidate, kScanWords, start_us);
}

void calibrate_times(Calibration* run) noexcept {
    FiguresLayout* layout = &run->layout;
    if (run->server.attach_thd == nullptr || run->server.detach_thd == nullptr ||
        run->server.init_for_queries == nullptr || run->server.storage_lock_wait == nullptr) {
        complain(run, "query_time, lock_time", "the server does not export what starts the clock");
        return;
    }
    if (!find_word(run, nullptr, run->server.storage_lock_wait, &layout->after_lock_us)) {
        complain(run, "query_time, lock_time", "not exactly one word of THD takes a lock wait");
        return;
    }
    if (!find_start(run, layout->after_lock_us, &layout->start_us)) {
        complain(run, "query_time, lock_time", "not exactly one word of THD takes the start time");
        return;
    }
    layout->available |= kFigureQueryTime | kFigureLockTime;
}

// Sets the private Diagnostics_area to an error that cannot be there by chance.
void set_magic_error(Calibration* run, unsigned int* error_number, char* sqlstate) noexcept {
    static const uint64_t no_condition_value[8] = {};
    uint64_t value = random_u64(run);
    *error_number = static_cast<unsigned int>(value >> 32) | 0x01000000U;
    for (int i = 0; i < 5; i++) {
        sqlstate[i] = static_cast<char>('A' + (value & 15U));
        value >>= 4;
    }
    sqlstate[5] = '\0';
    run->server.reset_diagnostics(run->diagnostics);
    run->server.set_error(run->diagnostics, *error_number, "", sqlstate, no_condition_value,
                          nullptr);
}

// Which values each status left kRounds times in the diagnostics area.
struct DiagnosticsScan {
    uint8_t status[kDiagnosticsBytes];       // By offset: may be the status.
    uint8_t error_number[kDiagnosticsBytes]; // ... the error number.
    uint8_t sqlstate[kDiagnosticsBytes];
    uint8_t affected[kDiagnosticsWords]; // By word.
    uint32_t seen[4][kDiagnosticsBytes / sizeof(uint32_t)];
};

enum DiagnosticsStatus { kEmpty, kOk, kEof, kError, kStatusCount };

// A status word has one value for each kind of end, the same every time, and four values for the
// four kinds of end.
void see_status(const Calibration* run, DiagnosticsScan* scan, DiagnosticsStatus status,
                bool first) noexcept {
    for (size_t i = 0; i < kDiagnosticsBytes / sizeof(uint32_t); i++) {
        uint32_t value = load<uint32_t>(run->diagnostics, static_cast<uint32_t>(i * 4));
        if (first) {
            scan->seen[status][i] = value;
        } else if (scan->seen[status][i] != value) {
            scan->status[i * 4] = 0;
        }
    }
}

void scan_diagnostics(Calibration* run, DiagnosticsScan* scan) noexcept {
    const Server& server = run->server;
    const char* bytes = reinterpret_cast<const char*>(run->diagnostics);
    memset(scan, 1, sizeof(*scan));
    for (int round = 0; round < kRounds; round++) {
        const bool first = round == 0;
        server.reset_diagnostics(run->diagnostics);
        see_status(run, scan, kEmpty, first);

        const uint64_t affected = random_u64(run);
        server.set_ok(run->diagnostics, affected, random_u64(run), nullptr);
        see_status(run, scan, kOk, first);
        for (size_t i = 0; i < kDiagnosticsWords; i++) {
            scan->affected[i] &= run->diagnostics[i] == affected ? 1 : 0;
        }

        server.reset_diagnostics(run->diagnostics);
        server.set_eof(run->diagnostics, run->thds[0]);
        see_status(run, scan, kEof, first);

        unsigned int error_number;
        char sqlstate[6];
        set_magic_error(run, &error_number, sqlstate);
        see_status(run, scan, kError, first);
        for (size_t i = 0; i + 5 <= kDiagnosticsBytes; i++) {
            scan->sqlstate[i] &= memcmp(bytes + i, sqlstate, 5) == 0 ? 1 : 0;
            if (i % 4 == 0) {
                scan->error_number[i] &= memcmp(bytes + i, &error_number, 4) == 0 ? 1 : 0;
            }
        }
    }
}

bool only_offset(const uint8_t* candidate, size_t step, uint32_t* offset) noexcept {
    size_t found = 0;
    for (size_t i = 0; i + 5 <= kDiagnosticsBytes; i += step) {
        if (candidate[i] != 0) {
            found++;
            *offset = static_cast<uint32_t>(i);
        }
    }
    return found == 1;
}

bool find_diagnostics_members(Calibration* run, DiagnosticsScan* scan) noexcept {
    run->server.construct_diagnostics(run->diagnostics, false);
    scan_diagnostics(run, scan);
    for (size_t i = 0; i < kDiagnosticsBytes / sizeof(uint32_t); i++) {
        for (int one = 0; one < kStatusCount; one++) {
            for (int other = one + 1; other < kStatusCount; other++) {
                if (scan->seen[one][i] == scan->seen[other][i]) {
                    scan->status[i * 4] = 0;
                }
            }
        }
    }
    FiguresLayout* layout = &run->layout;
    if (!only_offset(scan->status, 4, &layout->status)) {
        complain(run, "rows_affected, errno",
                 "not exactly one word of the diagnostics area "
                 "distinguishes ok, error and end of result");
        return false;
    }
    layout->status_ok = scan->seen[kOk][layout->status / 4];
    layout->status_error = scan->seen[kError][layout->status / 4];
    if (!only_candidate(scan->affected, kDiagnosticsWords, &layout->affected)) {
        complain(run, "rows_affected", "not exactly one word of the diagnostics area takes it");
        return false;
    }
    if (!only_offset(scan->error_number, 4, &layout->error_number) ||
        !only_offset(scan->sqlstate, 1, &layout->sqlstate)) {
        complain(run, "errno", "not exactly one place in the diagnostics area takes it");
        return false;
    }
    return true;
}

// Tests whether the word at `offset` is the server's pointer to the diagnostics area: sets it to
// the private one and reads the error number and status of the THD from the server.
bool leads_to_diagnostics(Calibration* run, uint32_t offset) noexcept {
    THD* thd = run->thds[0];
    char* word = reinterpret_cast<char*>(thd) + offset;
    const void* own = load<void*>(thd, offset);
    const void* ours = run->diagnostics;
    bool leads = true;
    for (int round = 0; leads && round < kRounds; round++) {
        unsigned int error_number;
        char sqlstate[6];
        set_magic_error(run, &error_number, sqlstate);
        memcpy(word, &ours, sizeof(ours));
        leads = run->server.error_number(thd) == error_number &&
                run->server.current_status(thd) == error_number;
        run->server.reset_diagnostics(run->diagnostics);
        run->server.set_ok(run->diagnostics, 0, 0, nullptr);
        leads = leads && run->server.current_status(thd) == 0;
        memcpy(word, &own, sizeof(own));
    }
    return leads;
}

// The THD's own diagnostics area is a member of it, so the pointer points into the THD: at the same
// distance in each of several THDs. Only such words are tested, and only up to the nearest other
// THD, so nothing is ever stored outside these private objects.
bool find_diagnostics_pointer(Calibration* run) noexcept {
    uintptr_t limit = kScanBytes;
    for (int one = 0; one < kThdCount; one++) {
        for (int other = 0; other < kThdCount; other++) {
            const uintptr_t from = reinterpret_cast<uintptr_t>(run->thds[one]);
            const uintptr_t to = reinterpret_cast<uintptr_t>(run->thds[other]);
            if (to > from && to - from < limit) {
                limit = to - from;
            }
        }
    }
    memset(run->candidate, 1, sizeof(run->candidate));
    for (int n = 0; n < kThdCount; n++) {
        const uint64_t base = reinterpret_cast<uintptr_t>(run->thds[n]);
        if (!look(run, run->thds[n], run->after)) {
            return false;
        }
        for (size_t i = 0; i < kScanWords; i++) {
            const uint64_t distance = run->after[i] - base;
            if (n == 0) {
                run->before[i] = distance;
            }
            run->candidate[i] &= (i + 1) * sizeof(uint64_t) <= limit && distance < limit &&
                                         distance % alignof(void*) == 0 &&
                                         distance == run->before[i]
                                     ? 1
                                     : 0;
        }
    }
    for (size_t i = 0; i < kScanWords; i++) {
        if (run->candidate[i] != 0) {
            run->candidate[i] =
                leads_to_diagnostics(run, static_cast<uint32_t>(i * sizeof(uint64_t))) ? 1 : 0;
        }
    }
    return only_candidate(run->candidate, kScanWords, &run->layout.diagnostics);
}

void calibrate_outcome(Calibration* run) noexcept {
    const Server& server = run->server;
    if (server.construct_diagnostics == nullptr || server.reset_diagnostics == nullptr ||
        server.set_ok == nullptr || server.set_eof == nullptr || server.set_error == nullptr ||
        server.error_number == nullptr || server.current_status == nullptr) {
        complain(run, "rows_affected, errno", "the server does not export its setters");
        return;
    }
    DiagnosticsScan* scan = static_cast<DiagnosticsScan*>(calloc(1, sizeof(DiagnosticsScan)));
    if (scan == nullptr) {
        complain(run, "rows_affected, errno", "out of memory");
        return;
    }
    const bool members = find_diagnostics_members(run, scan);
    free(scan);
    if (!members) {
        return;
    }
    if (!find_diagnostics_pointer(run)) {
        complain(run, "rows_affected, errno",
                 "not exactly one word of THD leads to the diagnostics area");
        return;
    }
    run->layout.available |= kFigureRowsAffected | kFigureError;
}

// Diagnostics_area::set_eof_status copies a count of warnings, but not while a stored routine runs,
// that is, while THD::spcont is not null. To observe this, the count must not be zero: the input is
// the half-word that set_eof_status copies to another one, the output. Words with any content,
// which may be pointers, are not changed.
bool find_warning_count(Calibration* run, uint32_t* input, uint32_t* output) noexcept {
    size_t found = 0;
    run->server.reset_diagnostics(run->diagnostics);
    char* bytes = reinterpret_cast<char*>(run->diagnostics);
    for (uint32_t from = 0; from < kDiagnosticsBytes; from += 4) {
        if (run->diagnostics[from / sizeof(uint64_t)] != 0) {
            continue;
        }
        const uint32_t count = static_cast<uint32_t>(random_u64(run)) | 1U;
        memcpy(bytes + from, &count, sizeof(count));
        run->server.set_eof(run->diagnostics, run->thds[0]);
        for (uint32_t to = 0; to < kDiagnosticsBytes; to += 4) {
            if (to != from && load<uint32_t>(bytes, to) == count) {
                found++;
                *input = from;
                *output = to;
            }
        }
        memset(bytes + from, 0, sizeof(count));
        run->server.reset_diagnostics(run->diagnostics);
    }
    return found == 1;
}

// Whether the word makes set_eof_status act as inside a routine when it is not null.
bool leads_to_routine(Calibration* run, uint32_t offset, uint32_t input, uint32_t output) noexcept {
    // Target of the pointer; zeros, in case the server follows it.
    static const uint64_t context[512] = {};
    THD* thd = run->thds[0];
    char* word = reinterpret_cast<char*>(thd) + offset;
    char* bytes = reinterpret_cast<char*>(run->diagnostics);
    const void* inside = context;
    const void* outside = nullptr;
    bool leads = true;
    for (int round = 0; leads && round < 2 * kRounds; round++) {
        const bool is_inside = round % 2 == 0;
        const uint32_t count = static_cast<uint32_t>(random_u64(run)) | 1U;
        run->server.reset_diagnostics(run->diagnostics);
        memcpy(bytes + input, &count, sizeof(count));
        memcpy(word, is_inside ? &inside : &outside, sizeof(inside));
        run->server.set_eof(run->diagnostics, thd);
        memcpy(word, &outside, sizeof(outside));
        leads = load<uint32_t>(bytes, output) == (is_inside ? 0 : count);
    }
    memset(bytes + input, 0, sizeof(uint32_t));
    return leads;
}

// Tests the null words between known members, which are certainly inside the object.
void calibrate_nesting(Calibration* run) noexcept {
    FiguresLayout* layout = &run->layout;
    constexpr uint32_t kNeeded = kFigureError | kFigureQueryTime;
    uint32_t input = 0;
    uint32_t output = 0;
    bool found = (layout->available & kNeeded) == kNeeded &&
                 find_warning_count(run, &input, &output) && look(run, run->thds[0], run->before);
    if (found) {
        const uint32_t known[] = {layout->start_us, layout->after_lock_us, layout->diagnostics};
        uint32_t first = known[0];
        uint32_t last = known[0];
        for (uint32_t offset : known) {
            first = offset < first ? offset : first;
            last = offset > last ? offset : last;
        }
        memset(run->candidate, 0, sizeof(run->candidate));
        for (uint32_t offset = first; offset <= last; offset += sizeof(uint64_t)) {
            const size_t i = offset / sizeof(uint64_t);
            run->candidate[i] =
                run->before[i] == 0 && leads_to_routine(run, offset, input, output) ? 1 : 0;
        }
        found = only_candidate(run->candidate, kScanWords, &layout->routine);
    }
    if (found) {
        layout->available |= kFigureNested;
        return;
    }
    if ((layout->available & kFigureQueryTime) == 0) {
        return;
    }
    // The times of a statement inside a routine would be taken for its own.
    layout->available &= ~(kFigureQueryTime | kFigureLockTime);
    complain(run, "query_time, lock_time",
             "not exactly one word of THD shows that a stored routine runs");
}

void calibrate_with_thds(Calibration* run) noexcept {
    int count = 0;
    for (; count < kThdCount; count++) {
        run->thds[count] = run->server.create_thd();
        if (run->thds[count] == nullptr) {
            complain(run, "all figures", "the server made no background THD");
            break;
        }
    }
    if (count == kThdCount) {
        calibrate_rows_sent(run);
        calibrate_rows_examined(run);
        calibrate_times(run);
        calibrate_outcome(run);
        calibrate_nesting(run);
    }
    while (count > 0) {
        count--;
        run->server.destroy_thd(run->thds[count]);
    }
}

// Runs on a thread of its own, because creating and destroying a THD changes which THD the server
// considers current, and the caller has one that must stay.
void* calibrate_on_own_thread(void* argument) noexcept {
    calibrate_with_thds(static_cast<Calibration*>(argument));
    return nullptr;
}

bool run_own_thread(Calibration* run) noexcept {
    // The server handles signals in one thread that waits for them; this one must not receive any.
    sigset_t all;
    sigset_t saved;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    pthread_t thread;
    const int error = pthread_create(&thread, nullptr, calibrate_on_own_thread, run);
    pthread_sigmask(SIG_SETMASK, &saved, nullptr);
    if (error != 0) {
        complain(run, "all figures", "cannot start a thread");
        return false;
    }
    return pthread_join(thread, nullptr) == 0;
}

} // namespace

bool figures_calibrate(char* why, size_t why_bytes) noexcept {
    if (why_bytes > 0) {
        why[0] = '\0';
    }
    g_figures_layout = FiguresLayout{};
    Calibration* run = static_cast<Calibration*>(calloc(1, sizeof(Calibration)));
    if (run == nullptr) {
        snprintf(why, why_bytes, "all figures: out of memory");
        return false;
    }
    run->why = why;
    run->why_bytes = why_bytes;
    run->random_state = monotonic_ns() ^ reinterpret_cast<uintptr_t>(run);
    resolve_server(&run->server);
    if (run->server.create_thd == nullptr || run->server.destroy_thd == nullptr) {
        complain(run, "all figures", "the server exports no background THD");
    } else if (pipe2(run->pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        complain(run, "all figures", "cannot make a pipe");
    } else {
        if (run_own_thread(run)) {
            g_figures_layout = run->layout;
        }
        close(run->pipe_ends[0]);
        close(run->pipe_ends[1]);
    }
    const uint32_t not_offered = run->not_offered;
    free(run);
    return (g_figures_layout.available | not_offered) == kFiguresAll;
}

} // namespace tacho
