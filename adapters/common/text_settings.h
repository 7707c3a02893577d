// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The settings that are texts and can change: the filter, its file, and who may read closed files.
// Each is checked before it takes effect. How a server is told of them is its adapter's.
#ifndef TACHO_COMMON_TEXT_SETTINGS_H
#define TACHO_COMMON_TEXT_SETTINGS_H

#include "settings.h"

#include "tacho_embed.h"

#include <atomic>
#include <cstddef>

namespace tacho {

enum TextNumber { kFilter = 0, kFilterFile = 1, kRecipients = 2, kTextCount = 3 };

// Which of them a setting is; kTextCount: none.
constexpr TextNumber text_number(int32_t setting) noexcept {
    switch (setting) {
    case TACHO_SETTING_FILTER:
        return kFilter;
    case TACHO_SETTING_FILTER_FILE:
        return kFilterFile;
    case TACHO_SETTING_ENCRYPTION_RECIPIENTS_FILE:
        return kRecipients;
    default:
        return kTextCount;
    }
}

struct TextSetting {
    const Setting& spec;
    // What the server shows: what it has read, or our copy.
    char* shown;
    char* owned;
    // Whether there is a value, for checks of the other one: no lock of the server covers them, so
    // they must not look at a text that another session replaces.
    std::atomic<bool> set;
};
extern TextSetting g_texts[kTextCount];

// Whether a statement may set this value of so many bytes; if not, `why` says why not (terminated,
// cut). Without a recorder nobody has an opinion of filters and files.
bool check_text(const tacho_embed* recorder, TextNumber number, const char* text, size_t length,
                char* why, size_t why_bytes) noexcept;

// Takes a value that was checked into use, and shows it. If it is wrong by now, for a file may have
// changed since, what was in effect stays, and so does what is shown. Under the server's lock on
// system variables.
void update_text(const tacho_embed* recorder, TextNumber number, const tacho_who& who,
                 const char* wanted) noexcept;

// What the server's configuration says, to a recorder that was just started; before logging is on.
// Errors are in the error log, in SHOW STATUS and in the audit log.
void apply_texts(const tacho_embed* recorder) noexcept;

// Keeps a copy of what the server has read, which may not last as long as the variable. False:
// there is not enough memory.
bool own_text(TextNumber number) noexcept;

// The server does not know the variable any more.
void drop_text(TextNumber number) noexcept;

// No value of ours is shown any more. None is freed: who shows them may be copying one.
void forget_texts() noexcept;

} // namespace tacho

#endif
