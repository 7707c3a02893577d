// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// SHOW STATUS LIKE 'tacho%'. The server calls back with LOCK_status held: a figure is read, without
// waiting.
#include "../common/figures_shown.h"
#include "adapter.h"

#include <cstdio>
#include <cstring>

namespace tacho {

namespace {

constexpr size_t kVariableCount = kShownNumberCount + kShownTextCount;
constexpr size_t kNameBytes = 40;

SHOW_VAR g_variables[kVariableCount + 1];
char g_names[kVariableCount][kNameBytes];

// One function for each entry of the tables: the server only passes the address for the value.
template <size_t Index> int show_number(MYSQL_THD, SHOW_VAR* out, char* buffer) noexcept {
    tacho_embed_status status = {};
    if (g_recorder != nullptr) {
        tacho_embed_read_status(g_recorder, &status);
    }
    const uint64_t tacho_embed_status::*member = kShownNumbers[Index].member;
    const auto value = static_cast<long long>(status.*member);
    memcpy(buffer, &value, sizeof(value));
    out->type = SHOW_LONGLONG;
    out->value = buffer;
    return 0;
}

template <size_t Index> int show_text(MYSQL_THD, SHOW_VAR* out, char* buffer) noexcept {
    buffer[0] = '\0';
    if (g_recorder != nullptr) {
        tacho_embed_read_text(g_recorder, kShownTexts[Index].which, buffer,
                              SHOW_VAR_FUNC_BUFF_SIZE);
    }
    out->type = SHOW_CHAR;
    out->value = buffer;
    return 0;
}

void describe(size_t place, const char* name, mysql_show_var_func function) noexcept {
    snprintf(g_names[place], kNameBytes, TACHO_STATUS("%s"), name);
    g_variables[place] = {g_names[place], reinterpret_cast<char*>(function), SHOW_FUNC,
                          SHOW_SCOPE_GLOBAL};
}

template <size_t Index = 0> void describe_numbers() noexcept {
    if constexpr (Index < kShownNumberCount) {
        describe(Index, kShownNumbers[Index].name, show_number<Index>);
        describe_numbers<Index + 1>();
    }
}

template <size_t Index = 0> void describe_texts() noexcept {
    if constexpr (Index < kShownTextCount) {
        describe(kShownNumberCount + Index, kShownTexts[Index].name, show_text<Index>);
        describe_texts<Index + 1>();
    }
}

} // namespace

SHOW_VAR* status_variables() noexcept {
    describe_numbers();
    describe_texts();
    g_variables[kVariableCount] = {nullptr, nullptr, SHOW_UNDEF, SHOW_SCOPE_UNDEF};
    return g_variables;
}

} // namespace tacho
