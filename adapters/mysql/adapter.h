// Zone: hot and cold (declarations)
// SPDX-License-Identifier: GPL-2.0-only
//
// What the files of the MySQL component share.
#ifndef TACHO_MYSQL_ADAPTER_H
#define TACHO_MYSQL_ADAPTER_H

#include "../common/names.h"
#include "services.h"

#include "tacho_embed.h"
#include "tacho_probe.h"

namespace tacho {

// For variables and status: set by init before they are registered, cleared by deinit after they
// are gone. Events have g_probe (visits.h).
extern tacho_embed* g_recorder;

// The session whose command runs on this thread; 0 = not known (thread_state.cc).
uint64_t current_conn() noexcept;

// Names of figures, as the server's services want them: made by init, only read by events.
struct FigureNames {
    my_h_string query_time;
    my_h_string rows_sent;
    my_h_string rows_examined;
};
extern FigureNames g_figure_names;

// This thread executes what installs the component: its next event is no command's first.
void note_own_statement() noexcept;

// The end of the statement that this thread executes, if it has none yet (events.cc).
void end_own_statement(const tacho_probe* probe) noexcept;

// How the server is told of a variable: a component says it by the service
// component_sys_variable_register, whose arguments these are, a plugin has a list of them.
bool register_variable(const char* name, int flags, const char* comment,
                       mysql_sys_var_check_func check, mysql_sys_var_update_func update,
                       void* check_arg, void* value) noexcept;
bool unregister_variable(const char* name) noexcept;

// System variables (variables.cc). False: why is in the error log.
bool register_variables() noexcept;
// False: one is in use by a statement; nothing was changed for those that are left.
bool unregister_variables() noexcept;
// Values that init needs.
const char* variable_text(int32_t number) noexcept;
uint64_t variable_number(int32_t number) noexcept;
// Shows the absolute path in place of what was given.
void show_text(int32_t number, const char* path) noexcept;
// Shows what was given again: before the server frees the variables' texts.
void give_back_texts() noexcept;
// Applies all settings to a recorder that was just started; logging last.
void apply_variables(const tacho_embed* recorder) noexcept;

// Status variables (status.cc): makes the list of them, which ends with one without a name.
SHOW_VAR* status_variables() noexcept;

} // namespace tacho

#endif
