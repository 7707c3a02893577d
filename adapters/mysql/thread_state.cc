// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
#include "thread_state.h"

namespace tacho {

__thread ThreadState t_state __attribute__((tls_model("initial-exec")));

void begin_session(uint64_t conn) noexcept {
    t_state.conn = conn;
    t_state.command = nullptr;
    t_state.command_bytes = 0;
    t_state.depth = 0;
    t_state.recorded = 0;
    t_state.skipped = false;
    t_state.announced = false;
    t_state.executes = false;
    t_state.begun = false;
    t_state.end_waits = false;
    t_state.has_caller = false;
    t_state.is_inner = false;
    t_state.event_conn = 0;
    t_state.runs = -1;
    t_state.sql_command = -1;
    t_state.text = nullptr;
    t_state.shown_bytes = UINT32_MAX;
    t_state.figures_present = 0;
}

void enter(const Visit& visit) noexcept {
    if (t_state.life != visit.life()) {
        t_state.life = visit.life();
        begin_session(0);
        t_state.db_conn = 0;
        forget_traces();
    }
}

uint64_t current_conn() noexcept {
    return t_state.conn;
}

} // namespace tacho
