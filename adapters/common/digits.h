// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#ifndef TACHO_COMMON_DIGITS_H
#define TACHO_COMMON_DIGITS_H

#include <cstdint>
#include <cstdio>

namespace tacho {

// A number as text, in decimal digits.
struct Digits {
    explicit Digits(uint64_t number) noexcept {
        snprintf(text, sizeof(text), "%llu", static_cast<unsigned long long>(number));
    }

    char text[24];
};

} // namespace tacho

#endif
