// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_MYSQL8_ATTRIBUTES_H
#define TACHO_MYSQL8_ATTRIBUTES_H

namespace tacho {

// The service mysql_thd_attributes of 8.0 lacks two attributes of 9.7's that query threads need.
// Replaces it by one that has them.
void extend_attributes() noexcept;

// Restores the server's own service.
void restore_attributes() noexcept;

} // namespace tacho

#endif
