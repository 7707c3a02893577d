// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
#include "database.h"

#include "thread_state.h"

#include <atomic>
#include <cstring>

namespace tacho {

namespace {

// How often the database of a session may have changed, by the low bits of its connection id: in a
// thread pool the session may have been on another thread then, and this thread's name is outdated.
// Sessions that share a counter fetch the name more often than necessary. Relaxed: the server
// orders the session's next statement after its last one.
constexpr size_t kDatabaseCounters = 1024;
std::atomic<uint32_t> g_database_changes[kDatabaseCounters];

std::atomic<uint32_t>& database_changes(uint64_t conn) noexcept {
    return g_database_changes[conn % kDatabaseCounters];
}

bool knows_database(uint64_t conn) noexcept {
    return t_state.db_conn == conn &&
           t_state.db_changes == database_changes(conn).load(std::memory_order_relaxed);
}

[[gnu::cold, gnu::noinline]] void load_database(MYSQL_THD thd, uint64_t conn) noexcept {
    const ServerText name(thd, "schema");
    keep_database(conn, name.bytes());
}

} // namespace

void keep_database(uint64_t conn, tacho_bytes name) noexcept {
    const size_t bytes = name.len < kDatabaseBytesMax ? name.len : kDatabaseBytesMax;
    if (bytes != 0) {
        memcpy(t_state.db, name.data, bytes);
    }
    t_state.db_bytes = static_cast<uint32_t>(bytes);
    t_state.db_conn = conn;
    t_state.db_changes = database_changes(conn).load(std::memory_order_relaxed);
}

tacho_bytes database_of(MYSQL_THD thd, uint64_t conn) noexcept {
    if (!knows_database(conn)) {
        load_database(thd, conn);
    }
    return bytes_of(t_state.db, t_state.db_bytes);
}

tacho_bytes known_database(uint64_t conn) noexcept {
    return knows_database(conn) ? bytes_of(t_state.db, t_state.db_bytes) : tacho_bytes{nullptr, 0};
}

void forget_database(uint64_t conn) noexcept {
    database_changes(conn).fetch_add(1, std::memory_order_relaxed);
}

} // namespace tacho
