// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The settings that are texts and can change: the filter, its file, and the file of recipients.
// Each is checked before it takes effect. Each adapter registers them with its server.
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
    // The text that the server shows: the one that it has read, or a copy.
    char* shown;
    char* owned;
    // Whether there is a value, for checks of the other one: no lock of the server covers them, so
    // they must not read a text that another session replaces.
    std::atomic<bool> set;
};
extern TextSetting g_texts[kTextCount];

// Whether a statement may set this value of `length` bytes; if not, `why` has the reason
// (terminated, truncated). Without a recorder, filters and files are not checked.
bool check_text(const tacho_embed* recorder, TextNumber number, const char* text, size_t length,
                char* why, size_t why_bytes) noexcept;

// Takes a value that was checked into use, and shows it. If it is invalid now, for example because
// a file has changed since, the previous value stays in effect, and stays shown. Under the server's
// lock on system variables.
void update_text(const tacho_embed* recorder, TextNumber number, const tacho_who& who,
                 const char* wanted) noexcept;

// Applies the server's configuration to a recorder that was just started; before logging is on.
// Errors are in the error log, in SHOW STATUS and in the audit log.
void apply_texts(const tacho_embed* recorder) noexcept;

// Copies the text that the server has read, which may be freed before the variable. False: out of
// memory.
bool own_text(TextNumber number) noexcept;

// The server no longer knows the variable.
void drop_text(TextNumber number) noexcept;

// Stops showing copies. None is freed, because a thread that shows a copy may still be reading it.
void forget_texts() noexcept;

} // namespace tacho

#endif
