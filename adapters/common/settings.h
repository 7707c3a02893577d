// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// The settings of the recorder, as a table for servers whose variables are registered by calls.
// Names are without the server's prefix: `logging` is `tacho.logging` in MySQL. (MariaDB wants
// static declarations; they are in adapters/mariadb/variables.cc.)
#ifndef TACHO_COMMON_SETTINGS_H
#define TACHO_COMMON_SETTINGS_H

#include <cstddef>
#include <cstdint>

namespace tacho {

enum class SettingKind {
    kSwitch,  // ON or OFF
    kFixed,   // the same; cannot change while the recorder runs
    kNumber,  // within bounds
    kChoice,  // one of some names
    kText,    // a text; cannot change while the recorder runs
    kCommand, // a switch that always reads OFF: setting it does something
};

// What a setting is to the recorder, beyond the numbers of enum tacho_setting.
enum SettingNumber : int32_t {
    kSettingDirectory = -1,
    kSettingArenaDirectory = -2,
    kSettingSigningKeyFile = -3,
    kSettingArenaBytes = -4,
    kSettingRotateNow = -5,
    kSettingFlushNow = -6,
    kSettingTables = -7,
    kSettingTraces = -8,
    kSettingEventClasses = -9,
};

// Values of kSettingTraces: none; all; all but those of a SELECT.
enum Traces : uint64_t { kTracesOff = 0, kTracesOn = 1, kTracesChanges = 2 };

struct Setting {
    const char* name;
    SettingKind kind;
    int32_t number; // enum tacho_setting, or a SettingNumber
    const char* comment;
    uint64_t default_value;
    uint64_t min;
    uint64_t max;
    const char* default_text;
    const char* const* choices; // ends with null
};

// In the order in which they are applied to a recorder that was just started; logging is last.
constexpr size_t kSettingCount = 30;
extern const Setting kSettings[kSettingCount];

// Place in kSettings.
size_t setting_index(int32_t number) noexcept;

} // namespace tacho

#endif
