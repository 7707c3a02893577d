// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "privilege.h"

#include <cstring>

#include <mysqld_error.h>

namespace tacho {

namespace {

constexpr char kName[] = "TACHO_ADMIN";

bool has_it(MYSQL_THD thd) noexcept {
    Security_context_handle context = nullptr;
    if (mysql_service_mysql_thd_security_context->get(thd, &context) != 0 || context == nullptr) {
        return false;
    }
    bool super = false;
    // What the server itself does with a setting that was persisted has all privileges.
    if (mysql_service_mysql_security_context_options->get(context, "privilege_super", &super) ==
            0 &&
        super) {
        return true;
    }
    return mysql_service_global_grants_check->has_global_grant(context, kName, strlen(kName)) != 0;
}

} // namespace

bool register_privilege() noexcept {
    return mysql_service_dynamic_privilege_register->register_privilege(kName, strlen(kName)) == 0;
}

bool unregister_privilege() noexcept {
    // What was granted stays granted, and counts when it is registered again.
    return mysql_service_dynamic_privilege_register->unregister_privilege(kName, strlen(kName)) ==
           0;
}

bool may_change(MYSQL_THD thd) noexcept {
    // Without a session it is the server that starts.
    if (thd == nullptr || has_it(thd)) {
        return true;
    }
    mysql_error_service_printf(ER_SPECIFIC_ACCESS_DENIED_ERROR, MYF(0), "TACHO_ADMIN or SUPER");
    return false;
}

} // namespace tacho
