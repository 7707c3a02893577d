// Zone: cold (declarations)
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL8_PERSISTED_H
#define TACHO_MYSQL8_PERSISTED_H

namespace tacho {

// Whether the server may set persisted variables (SET PERSIST) after init, with its list of plugins
// locked: INSTALL PLUGIN does, a start of the server does not.
bool sets_persisted_after_init() noexcept;

} // namespace tacho

#endif
