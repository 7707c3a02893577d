// Zone: hot and cold (declarations)
// SPDX-License-Identifier: GPL-2.0-only
//
// Declarations that the files of the MySQL component share.
#ifndef TACHO_MYSQL_ADAPTER_H
#define TACHO_MYSQL_ADAPTER_H

#include "../common/names.h"
#include "services.h"

#include "tacho_embed.h"
#include "tacho_probe.h"

namespace tacho {

// For variables and status: set by init before they are registered, cleared by deinit after they
// are gone. Events use g_probe (visits.h).
extern tacho_embed* g_recorder;

// The session whose command runs on this thread; 0 = unknown (thread_state.cc).
uint64_t current_conn() noexcept;

// Names of figures, as the server's services need them: created by init, only read by events.
struct FigureNames {
    my_h_string query_time;
    my_h_string rows_sent;
    my_h_string rows_examined;
};
extern FigureNames g_figure_names;

// This thread executes the statement that installs the component: its next event is not the first
// one of a command.
void note_own_statement() noexcept;

// Writes the end of the statement that this thread executes, if it has none yet (events.cc).
void end_own_statement(const tacho_probe* probe) noexcept;

// Registers a variable with the server: a component by the service component_sys_variable_register,
// which has these arguments; a plugin by a list of variables.
bool register_variable(const char* name, int flags, const char* comment,
                       mysql_sys_var_check_func check, mysql_sys_var_update_func update,
                       void* check_arg, void* value) noexcept;
bool unregister_variable(const char* name) noexcept;

// System variables (variables.cc). False: the error log has the reason.
bool register_variables() noexcept;
// False: a statement uses one of them; the remaining ones are unchanged.
bool unregister_variables() noexcept;
// Values for init.
const char* variable_text(int32_t number) noexcept;
uint64_t variable_number(int32_t number) noexcept;
// Shows the absolute path instead of the configured one.
void show_text(int32_t number, const char* path) noexcept;
// Shows the configured values again: before the server frees the variables' texts.
void give_back_texts() noexcept;
// Applies all settings to a recorder that was just started; logging last.
void apply_variables(const tacho_embed* recorder) noexcept;

// Status variables (status.cc): creates their list, which ends with a nameless entry.
SHOW_VAR* status_variables() noexcept;

} // namespace tacho

#endif
