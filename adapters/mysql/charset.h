// Zone: hot (charset_of), cold (find_charset)
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL_CHARSET_H
#define TACHO_MYSQL_CHARSET_H

#include "session.h"

namespace tacho {

// The character set of the texts that the session sends, a name that stays valid; empty: the server
// does not report it.
tacho_bytes charset_of(MYSQL_THD thd) noexcept;

// The character set of the statement's text as the server shows it, which may be one of the
// server's own making.
tacho_bytes charset_as_shown(MYSQL_THD thd) noexcept;

// Before the first call of charset_of.
void find_charset() noexcept;

} // namespace tacho

#endif
