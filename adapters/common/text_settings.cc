// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "text_settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tacho {

TextSetting g_texts[kTextCount] = {
    {kSettings[TACHO_SETTING_FILTER], nullptr, nullptr, {false}},
    {kSettings[TACHO_SETTING_FILTER_FILE], nullptr, nullptr, {false}},
    {kSettings[TACHO_SETTING_ENCRYPTION_RECIPIENTS_FILE], nullptr, nullptr, {false}},
};

namespace {

constexpr char kBoth[] = TACHO_VARIABLE("filter") " and " TACHO_VARIABLE(
    "filter_file") " cannot both be set: set the other one to '' first";

bool is_set(const char* value) noexcept {
    return value != nullptr && value[0] != '\0';
}

const char* shown(TextNumber number) noexcept {
    const char* value = g_texts[number].shown;
    return value != nullptr ? value : "";
}

// The setting that cannot be set at the same time; the same one, if there is none.
TextNumber other_of(TextNumber number) noexcept {
    switch (number) {
    case kFilter:
        return kFilterFile;
    case kFilterFile:
        return kFilter;
    default:
        return number;
    }
}

// Lets the recorder check or apply a value.
bool try_text(const tacho_embed* recorder, TextNumber number, const tacho_who* who,
              const char* text, bool apply, char* error, size_t error_bytes) noexcept {
    if (recorder == nullptr) {
        return true;
    }
    if (number == kRecipients) {
        const uint32_t mode = apply ? TACHO_ENCRYPTION_APPLY : TACHO_ENCRYPTION_CHECK;
        return tacho_embed_encryption(recorder, who, text, mode, error, error_bytes);
    }
    // Without a file everything is recorded, as with an empty filter.
    const uint32_t flags = (number == kFilterFile && is_set(text) ? TACHO_FILTER_FILE : 0) |
                           (apply ? TACHO_FILTER_APPLY : 0);
    return tacho_embed_filter(recorder, who, g_texts[kFilter].spec.full_name, text, flags, error,
                              error_bytes);
}

bool keep(TextSetting* setting, const char* text) noexcept {
    char* copy = strdup(text);
    if (copy == nullptr) {
        tacho_embed_log(TACHO_SEVERITY_ERROR,
                        "there is not enough memory to show the value of a variable");
        return false;
    }
    setting->shown = copy;
    // Readers hold the lock on system variables while they copy.
    free(setting->owned);
    setting->owned = copy;
    setting->set.store(is_set(copy), std::memory_order_relaxed);
    return true;
}

void forget(TextSetting* setting) noexcept {
    setting->shown = nullptr;
    setting->owned = nullptr;
    setting->set.store(false, std::memory_order_relaxed);
}

void apply_filter(const tacho_embed* recorder) noexcept {
    const bool from_file = is_set(shown(kFilterFile));
    const TextNumber number = from_file ? kFilterFile : kFilter;
    char error[1024] = "";
    if (from_file && is_set(shown(kFilter))) {
        snprintf(error, sizeof(error), "%s", kBoth);
    } else if (!is_set(shown(number)) ||
               try_text(recorder, number, nullptr, shown(number), true, error, sizeof(error))) {
        return;
    }
    char fault[1200];
    snprintf(fault, sizeof(fault), "%s: %s", g_texts[number].spec.full_name, error);
    tacho_embed_fault(recorder, TACHO_FAULT_FILTER, fault);
    char message[1300];
    snprintf(message, sizeof(message), "%s. Everything is recorded until a valid filter is set",
             fault);
    tacho_embed_log(TACHO_SEVERITY_ERROR, message);
}

void apply_recipients(const tacho_embed* recorder) noexcept {
    const char* path = shown(kRecipients);
    char error[1024] = "";
    if (!is_set(path) || tacho_embed_encryption(recorder, nullptr, path, TACHO_ENCRYPTION_BEGIN,
                                                error, sizeof(error))) {
        return;
    }
    char message[1300];
    snprintf(message, sizeof(message),
             "%s: %s. The log is recorded and NOT ENCRYPTED until a right file is set; what was "
             "closed by then is encrypted then",
             g_texts[kRecipients].spec.full_name, error);
    tacho_embed_log(TACHO_SEVERITY_ERROR, message);
}

} // namespace

bool check_text(const tacho_embed* recorder, TextNumber number, const char* text, size_t length,
                char* why, size_t why_bytes) noexcept {
    if (memchr(text, 0, length) != nullptr) {
        snprintf(why, why_bytes, "the value has a NUL in it");
        return false;
    }
    if (!is_set(text)) {
        return true;
    }
    const TextNumber other = other_of(number);
    if (other != number && g_texts[other].set.load(std::memory_order_relaxed)) {
        snprintf(why, why_bytes, "%s", kBoth);
        return false;
    }
    return try_text(recorder, number, nullptr, text, false, why, why_bytes);
}

void update_text(const tacho_embed* recorder, TextNumber number, const tacho_who& who,
                 const char* wanted) noexcept {
    const TextNumber other = other_of(number);
    const bool other_set = other != number && is_set(shown(other));
    if (other_set && is_set(wanted)) {
        // Only a statement that sets both gets here.
        tacho_embed_log(TACHO_SEVERITY_ERROR, kBoth);
        return;
    }
    TextSetting* setting = &g_texts[number];
    char error[1024] = "";
    // Clearing one of them leaves the other in effect; neither is, if the server began with both.
    const TextNumber effective = other_set ? other : number;
    const char* text = other_set ? shown(other) : wanted;
    if (!try_text(recorder, effective, &who, text, true, error, sizeof(error))) {
        char message[1200];
        snprintf(message, sizeof(message), "%s: %s; what was in effect stays",
                 setting->spec.full_name, error);
        tacho_embed_log(TACHO_SEVERITY_ERROR, message);
        return;
    }
    // For rules the recorder writes the line itself; of a file it does not know the name.
    if (number != kFilter && recorder != nullptr && strcmp(shown(number), wanted) != 0) {
        tacho_embed_note_config(recorder, &who, setting->spec.full_name, shown(number), wanted);
    }
    (void)keep(setting, wanted);
}

void apply_texts(const tacho_embed* recorder) noexcept {
    for (TextSetting& setting : g_texts) {
        setting.set.store(is_set(setting.shown), std::memory_order_relaxed);
    }
    apply_filter(recorder);
    apply_recipients(recorder);
}

bool own_text(TextNumber number) noexcept {
    TextSetting* setting = &g_texts[number];
    // A persisted value was set as by a statement: it is already a copy.
    return setting->shown == nullptr || setting->owned != nullptr || keep(setting, setting->shown);
}

void drop_text(TextNumber number) noexcept {
    free(g_texts[number].owned);
    forget(&g_texts[number]);
}

void forget_texts() noexcept {
    for (TextSetting& setting : g_texts) {
        forget(&setting);
    }
}

} // namespace tacho
