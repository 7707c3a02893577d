// Zone: hot (Visit), cold (the rest)
// SPDX-License-Identifier: GPL-2.0-only
//
// Counts the threads inside event callbacks. The server keeps references to the component's
// services in each session and releases them at the session's next lookup or end. UNINSTALL
// COMPONENT cannot wait for that, so the services stay valid (component.cc). It only waits until no
// thread uses the recorder any more, which is counted here.
#ifndef TACHO_MYSQL_VISITS_H
#define TACHO_MYSQL_VISITS_H

#include "tacho_probe.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tacho {

// A cache line per counter; with this many, two connections rarely share one.
constexpr size_t kVisitCounts = 256;
struct alignas(64) VisitCount {
    std::atomic<uint32_t> inside;
};
extern VisitCount g_visits[kVisitCounts];
// Null: recording is off.
extern std::atomic<const tacho_probe*> g_probe;
// How often a recorder was started.
extern std::atomic<uint32_t> g_life;

class Visit {
public:
    explicit Visit(uint64_t conn) noexcept : inside_(g_visits[conn % kVisitCounts].inside) {
        // SYNC visit: SeqCst here and in `close_visits`, each a store and then a load of the
        // other's store: either this thread sees null, or that one sees this visit.
        inside_.fetch_add(1, std::memory_order_seq_cst);
        probe_ = g_probe.load(std::memory_order_seq_cst);
    }
    // SYNC visit: Release pairs with the loads in `close_visits`: everything done here precedes the
    // removal there.
    ~Visit() noexcept {
        inside_.fetch_sub(1, std::memory_order_release);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    const tacho_probe* probe() const noexcept {
        return probe_;
    }
    // Relaxed: it was stored before the probe that this visit has loaded.
    uint32_t life() const noexcept {
        return g_life.load(std::memory_order_relaxed);
    }

private:
    std::atomic<uint32_t>& inside_;
    const tacho_probe* probe_;
};

// Begins visits of a new recorder.
void open_visits(const tacho_probe* probe) noexcept;

// Waits until each counter was zero once: a thread stays inside only while it records something.
// Visits continue meanwhile. False: after `timeout_ms` a thread is still waiting inside.
bool await_visits(uint64_t timeout_ms) noexcept;

// Stops new visits and waits for those in progress. False: after `timeout_ms` there are still some,
// and visits begin anew.
bool close_visits(uint64_t timeout_ms) noexcept;

} // namespace tacho

#endif
