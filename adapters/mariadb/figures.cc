// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The result of figures_calibrate.cc, for figures_read.h.
#include "figures.h"
#include "figures_layout.h"

namespace tacho {

FiguresLayout g_figures_layout;

uint32_t figures_available() noexcept {
    return g_figures_layout.available;
}

} // namespace tacho
