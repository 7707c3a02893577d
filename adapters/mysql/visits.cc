// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "visits.h"

#include "../common/event.h"

#include <ctime>

namespace tacho {

VisitCount g_visits[kVisitCounts];
std::atomic<const tacho_probe*> g_probe{nullptr};
std::atomic<uint32_t> g_life{0};

namespace {

// Visits are microseconds long, unless the arena is full.
void wait_a_moment() noexcept {
    const timespec a_moment = {0, 1000000};
    nanosleep(&a_moment, nullptr);
}

int64_t deadline(uint64_t timeout_ms) noexcept {
    return microseconds(CLOCK_MONOTONIC) + static_cast<int64_t>(timeout_ms) * 1000;
}

bool is_anybody_inside() noexcept {
    for (const VisitCount& count : g_visits) {
        // SYNC visit: see Visit.
        if (count.inside.load(std::memory_order_seq_cst) != 0) {
            return true;
        }
    }
    return false;
}

} // namespace

void open_visits(const tacho_probe* probe) noexcept {
    g_life.fetch_add(1, std::memory_order_relaxed);
    // SYNC visit: see Visit.
    g_probe.store(probe, std::memory_order_seq_cst);
}

bool await_visits(uint64_t timeout_ms) noexcept {
    const int64_t deadline_us = deadline(timeout_ms);
    for (const VisitCount& count : g_visits) {
        // Relaxed: an estimate, which `close_visits` verifies.
        while (count.inside.load(std::memory_order_relaxed) != 0) {
            if (microseconds(CLOCK_MONOTONIC) > deadline_us) {
                return false;
            }
            wait_a_moment();
        }
    }
    return true;
}

bool close_visits(uint64_t timeout_ms) noexcept {
    const tacho_probe* probe = g_probe.load(std::memory_order_relaxed);
    // SYNC visit: see Visit.
    g_probe.store(nullptr, std::memory_order_seq_cst);
    const int64_t deadline_us = deadline(timeout_ms);
    while (is_anybody_inside()) {
        if (microseconds(CLOCK_MONOTONIC) > deadline_us) {
            // Invalidates what threads remember of their commands.
            open_visits(probe);
            return false;
        }
        wait_a_moment();
    }
    return true;
}

} // namespace tacho
