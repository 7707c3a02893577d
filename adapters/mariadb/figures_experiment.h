// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The tools of figures_calibrate.cc: the server's functions, reading memory that may end at any
// page, and the search for the one word that a setter writes.
#ifndef TACHO_MARIADB_FIGURES_EXPERIMENT_H
#define TACHO_MARIADB_FIGURES_EXPERIMENT_H

#include <cstddef>
#include <cstdint>

#include "figures_layout.h"

class THD;

namespace tacho {

// sizeof(THD) is 27 KiB in MariaDB 10.11.
constexpr size_t kScanBytes = 64 * 1024;
constexpr size_t kScanWords = kScanBytes / sizeof(uint64_t);
constexpr size_t kPageBytes = 4096;
// sizeof(Diagnostics_area) is 0x308 in MariaDB 10.11; the rest is a reserve for other releases.
constexpr size_t kDiagnosticsWords = 1024;
constexpr size_t kDiagnosticsBytes = kDiagnosticsWords * sizeof(uint64_t);
constexpr int kRounds = 4;
constexpr int kThdCount = 3;

using ThdSetter = void (*)(THD*, unsigned long long);

// The server's functions, by their addresses in this process. A pointer to a non-virtual member
// function is called as a plain function whose first argument is `this` (Itanium C++ ABI).
struct Server {
    THD* (*create_thd)();
    void (*destroy_thd)(THD*);
    void* (*attach_thd)(THD*);
    void (*detach_thd)(void*);
    ThdSetter set_sent;
    ThdSetter inc_sent;
    ThdSetter set_examined;
    ThdSetter inc_examined;
    ThdSetter storage_lock_wait;
    void (*init_for_queries)(THD*);
    void (*construct_diagnostics)(void*, bool);
    void (*reset_diagnostics)(void*);
    void (*set_ok)(void*, unsigned long long, unsigned long long, const char*);
    void (*set_eof)(void*, THD*);
    void (*set_error)(void*, unsigned int, const char*, const char*, const void*, const void*);
    void** (*function_cache)(const void*, THD*);
    void** (*package_cache)(const void*, THD*);
    unsigned int (*error_number)(const THD*);
    unsigned int (*current_status)(THD*);
};

struct Calibration {
    Server server;
    THD* thds[kThdCount];
    int pipe_ends[2];
    uint64_t before[kScanWords];
    uint64_t after[kScanWords];
    uint8_t candidate[kScanWords];
    alignas(16) uint64_t diagnostics[kDiagnosticsWords];
    uint64_t random_state;
    FiguresLayout layout;
    // Figures that this release does not offer: not an error.
    uint32_t not_offered;
    char* why;
    size_t why_bytes;
    size_t why_used;
};

// Adds to the reasons in the result of figures_calibrate.
void complain(Calibration* run, const char* what, const char* reason) noexcept;

uint64_t monotonic_ns() noexcept;

// Not for secrets: it only has to be unlikely that memory has the value by chance.
uint64_t random_u64(Calibration* run) noexcept;

// Copies the readable part of the kScanBytes from `object` on; the rest is zero. The object ends
// somewhere inside; the heap after it belongs to other code and may change at any time, which is
// why one observation is never enough.
bool look(Calibration* run, const void* object, uint64_t* words) noexcept;

// The only remaining candidate, as an offset in bytes. False: none, or several.
bool only_candidate(const uint8_t* candidate, size_t count, uint32_t* offset) noexcept;

// Finds the word of the first THD in which `set` stores its argument and to which `add` adds its
// argument. One of them may be null.
bool find_word(Calibration* run, ThdSetter set, ThdSetter add, uint32_t* offset) noexcept;

// Looks up the server's functions; those that it does not export are null.
void resolve_server(Server* server) noexcept;

} // namespace tacho

#endif
