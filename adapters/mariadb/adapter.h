// Zone: hot and cold (declarations)
// SPDX-License-Identifier: GPL-2.0-only
//
// Declarations that the files of the MariaDB adapter share.
#ifndef TACHO_MARIADB_ADAPTER_H
#define TACHO_MARIADB_ADAPTER_H

#include "../common/server_compat.h"

#include "tacho_embed.h"
#include "tacho_probe.h"

// Exported by the server, declared in no public header (mysqld.cc): becomes true when a shutdown
// begins, long before deinit. Weak, because the plugin also works without it.
extern volatile unsigned char abort_loop __attribute__((weak));

namespace tacho {

// Set by the plugin's init function before the server sends the first event, cleared by deinit
// after the last: plain pointers are enough.
extern const tacho_probe* g_probe;
extern tacho_embed* g_recorder;

// Numbers of this server that the event callback needs.
struct EventContext {
    // Number of the SQL command EXECUTE, -2 when unknown: no STATUS event shows its own text.
    int execute_command;
    // Result of thd_sql_command between two commands of a client, -2 when unknown.
    int no_command;
};
extern EventContext g_event_context;

// The event callback of the plugin descriptor.
void notify(MYSQL_THD thd, unsigned int event_class, const void* event) noexcept;

// System and status variables of the plugin.
extern st_mysql_sys_var* g_system_variables[];
extern st_mysql_show_var g_status_variables[];

// Values for init, by enum tacho_setting.
const char* variable_text(int32_t setting) noexcept;
unsigned long long variable_number(int32_t setting) noexcept;
// Shows the absolute path instead of the configured one.
void show_text(int32_t setting, const char* path) noexcept;
// Applies all dynamic variables to a recorder that was just started; logging last.
void apply_variables(const tacho_embed* recorder) noexcept;

} // namespace tacho

#endif
