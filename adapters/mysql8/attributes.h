// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL8_ATTRIBUTES_H
#define TACHO_MYSQL8_ATTRIBUTES_H

namespace tacho {

// The service mysql_thd_attributes of 8.0 lacks two attributes of 9.7's that a query thread asks
// for. Puts one in its place that has them.
void extend_attributes() noexcept;

// Puts the server's own back.
void restore_attributes() noexcept;

} // namespace tacho

#endif
