// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// What the retention limits have in common on all servers.
#ifndef TACHO_COMMON_RETENTION_H
#define TACHO_COMMON_RETENTION_H

#include "tacho_embed.h"

#include <cstdint>

namespace tacho {

// Whether an operator who sets a limit while the recorder runs confirms that files beyond it may be
// removed at once.
constexpr bool confirms_removal(int32_t setting, uint64_t before, uint64_t wanted) noexcept {
    const bool keeps_less = wanted != 0 && wanted <= before;
    switch (setting) {
    case TACHO_SETTING_RETENTION_DAYS:
        return keeps_less;
    case TACHO_SETTING_RETENTION_FILES:
        // 0 means no limit, so any number keeps less.
        return keeps_less || (wanted != 0 && before == 0);
    default:
        return false;
    }
}

} // namespace tacho

#endif
