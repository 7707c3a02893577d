// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "privilege.h"

#include <cstring>

#include <mysqld_error.h>

namespace tacho {

namespace {

constexpr char kAdmin[] = "TACHO_ADMIN";
constexpr char kExempt[] = "TACHO_EXEMPT";
// A privilege of the server.
constexpr char kVariables[] = "SYSTEM_VARIABLES_ADMIN";

Security_context_handle context_of(MYSQL_THD thd) noexcept {
    Security_context_handle context = nullptr;
    if (mysql_service_mysql_thd_security_context->get(thd, &context) != 0) {
        return nullptr;
    }
    return context;
}

// The server has all privileges when it sets a persisted variable.
bool has_super(Security_context_handle context) noexcept {
    bool super = false;
    return mysql_service_mysql_security_context_options->get(context, "privilege_super", &super) ==
               0 &&
           super;
}

bool has(Security_context_handle context, const char* name) noexcept {
    return mysql_service_global_grants_check->has_global_grant(context, name, strlen(name)) != 0;
}

bool make_known(const char* name) noexcept {
    return mysql_service_dynamic_privilege_register->register_privilege(name, strlen(name)) == 0;
}

bool take_back(const char* name) noexcept {
    // Grants persist, and are valid again after the next registration.
    return mysql_service_dynamic_privilege_register->unregister_privilege(name, strlen(name)) == 0;
}

} // namespace

bool register_privileges() noexcept {
    const bool admin = make_known(kAdmin);
    return make_known(kExempt) && admin;
}

bool unregister_privileges() noexcept {
    const bool admin = take_back(kAdmin);
    return take_back(kExempt) && admin;
}

bool may_change(MYSQL_THD thd) noexcept {
    // Without a session, the server is starting.
    if (thd == nullptr) {
        return true;
    }
    Security_context_handle context = context_of(thd);
    if (context != nullptr && (has_super(context) || has(context, kAdmin))) {
        return true;
    }
    mysql_error_service_printf(ER_SPECIFIC_ACCESS_DENIED_ERROR, MYF(0), "TACHO_ADMIN or SUPER");
    return false;
}

bool may_load(MYSQL_THD thd) noexcept {
    Security_context_handle context = thd == nullptr ? nullptr : context_of(thd);
    if (context != nullptr &&
        (has_super(context) || (has(context, kAdmin) && has(context, kVariables)))) {
        return true;
    }
    mysql_error_service_printf(ER_SPECIFIC_ACCESS_DENIED_ERROR, MYF(0),
                               "SUPER, or TACHO_ADMIN and SYSTEM_VARIABLES_ADMIN,");
    return false;
}

bool is_granted_exempt(MYSQL_THD thd) noexcept {
    Security_context_handle context = thd == nullptr ? nullptr : context_of(thd);
    return context != nullptr && has(context, kExempt);
}

bool is_exempt(MYSQL_THD thd, bool sets) noexcept {
    Security_context_handle context = thd == nullptr ? nullptr : context_of(thd);
    if (context == nullptr) {
        return true;
    }
    return has_super(context) || has(context, kExempt) || (sets && has(context, kAdmin));
}

} // namespace tacho
