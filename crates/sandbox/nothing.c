/* SPDX-License-Identifier: MIT
 *
 * An audit plugin that does nothing: the cost of the server's audit API alone. It subscribes to
 * the classes that tacho uses by default, so the difference between the two is tacho.
 *
 * Compiled against the server's headers it is under GPL-2.0-only as a whole, taking this under MIT.
 */
#define MYSQL_DYNAMIC_PLUGIN
#include <mysql/plugin.h>
#include <mysql/plugin_audit.h>

static void notify(MYSQL_THD thd, unsigned int event_class, const void* event) {
    (void)thd;
    (void)event_class;
    (void)event;
}

static struct st_mysql_audit nothing = {
    MYSQL_AUDIT_INTERFACE_VERSION,
    NULL,
    notify,
    {MYSQL_AUDIT_GENERAL_CLASSMASK | MYSQL_AUDIT_CONNECTION_CLASSMASK},
};

maria_declare_plugin(nothing){
    MYSQL_AUDIT_PLUGIN,
    &nothing,
    "nothing",
    "Tachograph",
    "Does nothing",
    PLUGIN_LICENSE_GPL,
    NULL,
    NULL,
    0x0100,
    NULL,
    NULL,
    "1.0",
    MariaDB_PLUGIN_MATURITY_STABLE,
} maria_declare_plugin_end;
