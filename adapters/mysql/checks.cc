// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "checks.h"

#include "../common/settings.h"
#include "privilege.h"

#include <cstring>
#include <strings.h>
#include <utility>

namespace tacho {

namespace {

// Longest name of a choice, with a reserve.
constexpr int kNameBytes = 64;
const char* const kSwitch[] = {"OFF", "ON", nullptr};

// The number of a name, or a number of one of them; -1: neither.
long chosen(st_mysql_value* value, const char* const* names) noexcept {
    long count = 0;
    while (names[count] != nullptr) {
        ++count;
    }
    if (value->value_type(value) != MYSQL_VALUE_TYPE_STRING) {
        long long number = -1;
        const bool given = value->val_int(value, &number) == 0;
        return given && number >= 0 && number < count ? static_cast<long>(number) : -1;
    }
    char room[kNameBytes];
    int length = kNameBytes;
    const char* text = value->val_str(value, room, &length);
    for (long i = 0; text != nullptr && i < count; ++i) {
        // A text may contain NUL, and have any length.
        const size_t bytes = strlen(names[i]);
        if (static_cast<size_t>(length) == bytes && strncasecmp(text, names[i], bytes) == 0) {
            return i;
        }
    }
    return -1;
}

int check_flag(MYSQL_THD thd, SYS_VAR*, void* save, st_mysql_value* value) noexcept {
    const long number = may_change(thd) ? chosen(value, kSwitch) : -1;
    if (number < 0) {
        return 1;
    }
    *static_cast<bool*>(save) = number != 0;
    return 0;
}

template <size_t Index>
int check_choice(MYSQL_THD thd, SYS_VAR*, void* save, st_mysql_value* value) noexcept {
    const long number = may_change(thd) ? chosen(value, kSettings[Index].choices) : -1;
    if (number < 0) {
        return 1;
    }
    *static_cast<unsigned long*>(save) = static_cast<unsigned long>(number);
    return 0;
}

// A value out of range is refused, never adjusted.
template <size_t Index>
int check_number(MYSQL_THD thd, SYS_VAR*, void* save, st_mysql_value* value) noexcept {
    long long number = 0;
    if (!may_change(thd) || value->val_int(value, &number) != 0) {
        return 1;
    }
    const bool negative = number < 0 && value->is_unsigned(value) == 0;
    const auto wanted = static_cast<unsigned long long>(number);
    if (negative || wanted < kSettings[Index].min || wanted > kSettings[Index].max) {
        return 1;
    }
    *static_cast<unsigned long long*>(save) = wanted;
    return 0;
}

template <size_t Index> mysql_sys_var_check_func check_at() noexcept {
    switch (kSettings[Index].kind) {
    case SettingKind::kNumber:
        return check_number<Index>;
    case SettingKind::kChoice:
        return check_choice<Index>;
    case SettingKind::kSwitch:
    case SettingKind::kCommand:
        return check_flag;
    case SettingKind::kText:
        // Texts that can change have a check of their own.
        return nullptr;
    }
    return nullptr;
}

template <size_t... Indexes>
mysql_sys_var_check_func check_among(size_t index, std::index_sequence<Indexes...>) noexcept {
    const mysql_sys_var_check_func all[] = {check_at<Indexes>()...};
    return all[index];
}

} // namespace

mysql_sys_var_check_func check_of(int32_t number) noexcept {
    return check_among(static_cast<size_t>(number),
                       std::make_index_sequence<TACHO_SETTING_COUNT>());
}

} // namespace tacho
