// Zone: cold; is_exempt, is_granted_exempt: of a statement that a rule blocks, or may rewrite
// SPDX-License-Identifier: GPL-2.0-only
//
// TACHO_EXEMPT: whom no rule blocks or rewrites. TACHO_ADMIN: who may change the recorder. The
// server asks for SYSTEM_VARIABLES_ADMIN (or SUPER) for any global variable; this keeps those who
// have that, and are not to be trusted with the record of what they do, from it.
#ifndef TACHO_MYSQL_PRIVILEGE_H
#define TACHO_MYSQL_PRIVILEGE_H

#include "services.h"

namespace tacho {

// Makes the names known, so that they can be granted.
bool register_privileges() noexcept;
bool unregister_privileges() noexcept;

// Whether this session may change a setting: it has TACHO_ADMIN or SUPER. False: the server tells
// its client why.
bool may_change(MYSQL_THD thd) noexcept;

// Whether this session may load rules that rewrite: it has SUPER, or TACHO_ADMIN and what the
// server asks for to change a variable. Who loads rules decides what all other sessions execute.
// False: the server tells its client why.
bool may_load(MYSQL_THD thd) noexcept;

// Whether no rule blocks what this session executes now: it has TACHO_EXEMPT or SUPER, or it
// `sets` variables, and has TACHO_ADMIN: nobody can be locked out. Inside of a stored program with
// definer's rights the definer is asked about. Asked anew each time: the server may take a lock of
// its privileges for it.
bool is_exempt(MYSQL_THD thd, bool sets) noexcept;

// Whether this session is never rewritten: TACHO_EXEMPT was granted. SUPER alone does not count:
// rules are for administrators, too, and this is the way out of one that keeps them from loading.
bool is_granted_exempt(MYSQL_THD thd) noexcept;

} // namespace tacho

#endif
