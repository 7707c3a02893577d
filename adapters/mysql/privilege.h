// Zone: cold; is_exempt, is_granted_exempt: of a statement that a rule blocks, or may rewrite
// SPDX-License-Identifier: GPL-2.0-only
//
// TACHO_EXEMPT: exempt from rules. TACHO_ADMIN: may change the recorder. The server requires
// SYSTEM_VARIABLES_ADMIN (or SUPER) for any global variable; TACHO_ADMIN stops administrators with
// that privilege from altering the audit of their own actions.
#ifndef TACHO_MYSQL_PRIVILEGE_H
#define TACHO_MYSQL_PRIVILEGE_H

#include "services.h"

namespace tacho {

// Registers the names, so that they can be granted.
bool register_privileges() noexcept;
bool unregister_privileges() noexcept;

// Whether this session may change a setting: it has TACHO_ADMIN or SUPER. False: the server reports
// the reason to the client.
bool may_change(MYSQL_THD thd) noexcept;

// Whether this session may load rewrite rules: it has SUPER, or TACHO_ADMIN and the privilege that
// the server requires for variables. The rules decide what all other sessions execute. False: the
// server reports the reason to the client.
bool may_load(MYSQL_THD thd) noexcept;

// Whether this session is exempt from blocking rules now: it has TACHO_EXEMPT or SUPER, or it
// `sets` variables and has TACHO_ADMIN, so that administrators cannot be locked out. Inside a
// stored program with definer's rights, the definer's privileges count. Evaluated each time: the
// server may take a lock of its privileges.
bool is_exempt(MYSQL_THD thd, bool sets) noexcept;

// Whether this session is never rewritten: TACHO_EXEMPT was granted. SUPER alone does not count:
// rules apply to administrators, too, and this privilege is the way out of a rule that keeps them
// from loading others.
bool is_granted_exempt(MYSQL_THD thd) noexcept;

} // namespace tacho

#endif
