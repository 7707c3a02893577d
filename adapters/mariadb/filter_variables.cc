// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// tacho_filter and tacho_filter_file: checked before they take effect, one at a time.
#include "filter_variables.h"
#include "who.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tacho {

namespace {

char* v_filter;
char* v_filter_file;

// ER_WRONG_VALUE_FOR_VAR of the server, which is in no header for plugins.
constexpr unsigned int kWrongValue = 1231;
constexpr char kFilterName[] = "tacho_filter";
constexpr char kBoth[] =
    "tacho_filter and tacho_filter_file cannot both be set: set the other one to '' first";

// Copies of the values, which the server only points to.
char* g_filter;
char* g_filter_file;
// Whether there is a value: no lock of the server covers the checks, which must not look at a text
// that another session replaces.
std::atomic<bool> g_filter_set;
std::atomic<bool> g_filter_file_set;

bool is_set(const char* value) noexcept {
    return value != nullptr && value[0] != '\0';
}

int refuse(const char* variable, const char* why) noexcept {
    my_printf_error(kWrongValue, "%s: %s", MYF(0), variable, why);
    return 1;
}

// The text lives as long as the statement, also if the server has put it into our buffer.
int check(MYSQL_THD thd, void* save, st_mysql_value* value, const char* variable,
          const std::atomic<bool>& other_set, uint32_t flags) noexcept {
    char buffer[256];
    int length = sizeof(buffer);
    const char* text = value->val_str(value, buffer, &length);
    if (text == nullptr) {
        text = "";
        length = 0;
    }
    if (memchr(text, 0, static_cast<size_t>(length)) != nullptr) {
        return refuse(variable, "the value has a NUL in it");
    }
    text = thd_strmake(thd, text, static_cast<size_t>(length));
    if (text == nullptr) {
        return refuse(variable, "there is not enough memory");
    }
    if (is_set(text) && other_set.load(std::memory_order_relaxed)) {
        return refuse(variable, kBoth);
    }
    char error[1024] = "";
    if (is_set(text) && g_recorder != nullptr &&
        !tacho_embed_filter(g_recorder, nullptr, kFilterName, text, flags, error, sizeof(error))) {
        return refuse(variable, error);
    }
    *static_cast<const char**>(save) = text;
    return 0;
}

int check_filter(MYSQL_THD thd, st_mysql_sys_var*, void* save, st_mysql_value* value) noexcept {
    return check(thd, save, value, "tacho_filter", g_filter_file_set, 0);
}

int check_filter_file(MYSQL_THD thd, st_mysql_sys_var*, void* save,
                      st_mysql_value* value) noexcept {
    return check(thd, save, value, "tacho_filter_file", g_filter_set, TACHO_FILTER_FILE);
}

// The file may have changed since it was checked: then the filter before stays, and so does the
// value of the variable.
void update(MYSQL_THD thd, const char* variable, const char* wanted, uint32_t flags, char** shown,
            char** owned, const char* other, uint32_t other_flags) noexcept {
    char error[1024] = "";
    // Who clears one of them leaves the other in effect. Both can only be set together.
    const bool clears = !is_set(wanted) && is_set(other);
    if (is_set(wanted) && is_set(other)) {
        tacho_embed_log(2, kBoth);
        return;
    }
    const tacho_who who = who_of(thd);
    if (g_recorder != nullptr &&
        !tacho_embed_filter(g_recorder, &who, kFilterName, clears ? other : wanted,
                            (clears ? other_flags : flags) | TACHO_FILTER_APPLY, error,
                            sizeof(error))) {
        char message[1200];
        snprintf(message, sizeof(message), "%s: %s; the filter before stays", variable, error);
        tacho_embed_log(2, message);
        return;
    }
    if (g_recorder != nullptr && shown == &v_filter_file &&
        strcmp(is_set(*shown) ? *shown : "", wanted) != 0) {
        tacho_embed_note_config(g_recorder, &who, variable, is_set(*shown) ? *shown : "", wanted);
    }
    char* copy = strdup(wanted);
    if (copy == nullptr) {
        tacho_embed_log(2, "there is not enough memory to show the value of the filter");
        return;
    }
    *shown = copy;
    free(*owned);
    *owned = copy;
}

void update_filter(MYSQL_THD thd, st_mysql_sys_var*, void*, const void* save) noexcept {
    update(thd, "tacho_filter", *static_cast<const char* const*>(save), 0, &v_filter, &g_filter,
           v_filter_file, TACHO_FILTER_FILE);
    g_filter_set.store(is_set(v_filter), std::memory_order_relaxed);
}

void update_filter_file(MYSQL_THD thd, st_mysql_sys_var*, void*, const void* save) noexcept {
    const char* wanted = *static_cast<const char* const*>(save);
    // Without a file everything is recorded, as with an empty filter.
    update(thd, "tacho_filter_file", wanted, is_set(wanted) ? TACHO_FILTER_FILE : 0, &v_filter_file,
           &g_filter_file, v_filter, 0);
    g_filter_file_set.store(is_set(v_filter_file), std::memory_order_relaxed);
}

MYSQL_SYSVAR_STR(filter, v_filter, PLUGIN_VAR_RQCMDARG,
                 "Which statements are recorded, and how: rules in JSON; empty = all, whole",
                 check_filter, update_filter, "");
MYSQL_SYSVAR_STR(filter_file, v_filter_file, PLUGIN_VAR_RQCMDARG,
                 "File with the rules of tacho_filter, read when this is set", check_filter_file,
                 update_filter_file, "");

} // namespace

st_mysql_sys_var* const kFilterVariable = MYSQL_SYSVAR(filter);
st_mysql_sys_var* const kFilterFileVariable = MYSQL_SYSVAR(filter_file);

void apply_filter(const tacho_embed* recorder) noexcept {
    g_filter_set.store(is_set(v_filter), std::memory_order_relaxed);
    g_filter_file_set.store(is_set(v_filter_file), std::memory_order_relaxed);
    const bool from_file = is_set(v_filter_file);
    char error[1024] = "";
    if (from_file && is_set(v_filter)) {
        snprintf(error, sizeof(error), "%s", kBoth);
    } else if (!from_file && !is_set(v_filter)) {
        return;
    } else if (tacho_embed_filter(recorder, nullptr, kFilterName,
                                  from_file ? v_filter_file : v_filter,
                                  TACHO_FILTER_APPLY | (from_file ? TACHO_FILTER_FILE : 0), error,
                                  sizeof(error))) {
        return;
    }
    char message[1300];
    snprintf(message, sizeof(message), "%s: %s. Everything is recorded until a right filter is set",
             from_file ? "tacho_filter_file" : "tacho_filter", error);
    tacho_embed_log(2, message);
}

void forget_filter() noexcept {
    // Not freed: SHOW VARIABLES of another session may be copying them at this moment.
    v_filter = nullptr;
    v_filter_file = nullptr;
    g_filter = nullptr;
    g_filter_file = nullptr;
}

} // namespace tacho
