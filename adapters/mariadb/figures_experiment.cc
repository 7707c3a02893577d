// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "figures_experiment.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include "../common/server_compat.h"

namespace tacho {

void complain(Calibration* run, const char* what, const char* reason) noexcept {
    size_t room = run->why_bytes - run->why_used;
    if (room <= 1) {
        return;
    }
    int wrote = snprintf(run->why + run->why_used, room, "%s%s: %s", run->why_used == 0 ? "" : "; ",
                         what, reason);
    if (wrote > 0) {
        run->why_used += static_cast<size_t>(wrote) < room ? static_cast<size_t>(wrote) : room - 1;
    }
}

uint64_t monotonic_ns() noexcept {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

// splitmix64.
uint64_t random_u64(Calibration* run) noexcept {
    run->random_state += 0x9e3779b97f4a7c15U;
    uint64_t mixed = run->random_state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31);
}

bool look(Calibration* run, const void* object, uint64_t* words) noexcept {
    memset(words, 0, kScanBytes);
    const char* from = static_cast<const char*>(object);
    size_t done = 0;
    while (done < kScanBytes) {
        // Up to the end of a page, so that a write is accepted completely or not at all.
        size_t part = kPageBytes - (reinterpret_cast<uintptr_t>(from + done) % kPageBytes);
        if (part > kScanBytes - done) {
            part = kScanBytes - done;
        }
        ssize_t wrote = write(run->pipe_ends[1], from + done, part);
        if (wrote < 0 && errno == EFAULT) {
            return done > 0;
        }
        if (wrote != static_cast<ssize_t>(part)) {
            return false;
        }
        if (read(run->pipe_ends[0], reinterpret_cast<char*>(words) + done, part) != wrote) {
            return false;
        }
        done += part;
    }
    return true;
}

bool only_candidate(const uint8_t* candidate, size_t count, uint32_t* offset) noexcept {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (candidate[i] != 0) {
            found++;
            *offset = static_cast<uint32_t>(i * sizeof(uint64_t));
        }
    }
    return found == 1;
}

bool find_word(Calibration* run, ThdSetter set, ThdSetter add, uint32_t* offset) noexcept {
    THD* thd = run->thds[0];
    memset(run->candidate, 1, sizeof(run->candidate));
    for (int round = 0; round < kRounds; round++) {
        const uint64_t value = random_u64(run);
        if (set != nullptr) {
            set(thd, value);
            if (!look(run, thd, run->after)) {
                return false;
            }
            for (size_t i = 0; i < kScanWords; i++) {
                run->candidate[i] &= run->after[i] == value ? 1 : 0;
            }
        }
        if (add != nullptr) {
            const uint64_t added = random_u64(run);
            if (!look(run, thd, run->before)) {
                return false;
            }
            add(thd, added);
            const bool looked = look(run, thd, run->after);
            add(thd, 0 - added);
            if (!looked) {
                return false;
            }
            for (size_t i = 0; i < kScanWords; i++) {
                run->candidate[i] &= run->after[i] - run->before[i] == added ? 1 : 0;
            }
        }
    }
    if (set != nullptr) {
        set(thd, 0);
    }
    return only_candidate(run->candidate, kScanWords, offset);
}

namespace {

template <class Function> void resolve(const char* name, Function* function) noexcept {
    void* address = dlsym(RTLD_DEFAULT, name);
    static_assert(sizeof(address) == sizeof(*function), "function pointers are plain addresses");
    memcpy(function, &address, sizeof(address));
}

} // namespace

void resolve_server(Server* server) noexcept {
    resolve(symbols::kCreateBackgroundThd, &server->create_thd);
    resolve(symbols::kDestroyBackgroundThd, &server->destroy_thd);
    resolve(symbols::kAttachThd, &server->attach_thd);
    resolve(symbols::kDetachThd, &server->detach_thd);
    resolve(symbols::kSetSentRowCount, &server->set_sent);
    resolve(symbols::kIncSentRowCount, &server->inc_sent);
    resolve(symbols::kSetExaminedRowCount, &server->set_examined);
    resolve(symbols::kIncExaminedRowCount, &server->inc_examined);
    resolve(symbols::kStorageLockWait, &server->storage_lock_wait);
    resolve(symbols::kInitForQueries, &server->init_for_queries);
    resolve(symbols::kDiagnosticsArea, &server->construct_diagnostics);
    resolve(symbols::kResetDiagnostics, &server->reset_diagnostics);
    resolve(symbols::kSetOkStatus, &server->set_ok);
    resolve(symbols::kSetEofStatus, &server->set_eof);
    resolve(symbols::kSetErrorStatus, &server->set_error);
    resolve(symbols::kFunctionCache, &server->function_cache);
    resolve(symbols::kPackageCache, &server->package_cache);
    resolve(symbols::kGetErrorNumber, &server->error_number);
    resolve(symbols::kCurrentStatus, &server->current_status);
}

} // namespace tacho
