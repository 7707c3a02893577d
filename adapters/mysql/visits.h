// Zone: hot (Visit), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// Who is inside of an event callback. The server keeps references to our services in each session
// and gives them back when that session next looks, or ends: so UNINSTALL COMPONENT can not wait
// for them, and they stay valid instead (component.cc). What it waits for is that nobody uses the
// recorder any more, and that is counted here.
#ifndef TACHO_MYSQL_VISITS_H
#define TACHO_MYSQL_VISITS_H

#include "tacho_probe.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tacho {

// A cache line for each of some connections: hardly two of them meet.
constexpr size_t kVisitCounts = 256;
struct alignas(64) VisitCount {
    std::atomic<uint32_t> inside;
};
extern VisitCount g_visits[kVisitCounts];
// Null: nothing is recorded.
extern std::atomic<const tacho_probe*> g_probe;
// How often a recorder was started.
extern std::atomic<uint32_t> g_life;

class Visit {
public:
    explicit Visit(uint64_t conn) noexcept : inside_(g_visits[conn % kVisitCounts].inside) {
        // SYNC visit: SeqCst here and in `close_visits`, each a store and then a load of what the
        // other stores: either this one sees null, or that one sees this visit.
        inside_.fetch_add(1, std::memory_order_seq_cst);
        probe_ = g_probe.load(std::memory_order_seq_cst);
    }
    // SYNC visit: Release pairs with the loads in `close_visits`: what was done here comes before
    // what is taken away there.
    ~Visit() noexcept {
        inside_.fetch_sub(1, std::memory_order_release);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    const tacho_probe* probe() const noexcept {
        return probe_;
    }
    // Relaxed: it was stored before the probe that was seen.
    uint32_t life() const noexcept {
        return g_life.load(std::memory_order_relaxed);
    }

private:
    std::atomic<uint32_t>& inside_;
    const tacho_probe* probe_;
};

// A new recorder's.
void open_visits(const tacho_probe* probe) noexcept;

// Waits until each counter was seen at zero: nobody stays inside for longer than it takes to record
// something. Visits go on meanwhile. False: after `patience_ms` somebody is still waiting there.
bool await_visits(uint64_t patience_ms) noexcept;

// No more visits; waits for those that are there. False: after `patience_ms` there are still some,
// and visits begin anew.
bool close_visits(uint64_t patience_ms) noexcept;

} // namespace tacho

#endif
