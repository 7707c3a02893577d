// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// tacho.filter, tacho.filter_file and tacho.encryption_recipients_file: texts that are checked
// before they take effect. A check function has no lock of the server; an update function has the
// one on system variables.
#include "text_variables.h"

#include "privilege.h"
#include "who.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <mysqld_error.h>

namespace tacho {

namespace {

constexpr char kBoth[] = TACHO_VARIABLE("filter") " and " TACHO_VARIABLE(
    "filter_file") " cannot both be set: set the other one to '' first";

struct TextVariable {
    const char* name;
    const char* full_name;
    const char* comment;
    // What the server shows: what it has read when it started, or our copy.
    char* shown;
    char* owned;
    // Whether there is a value, for checks of the other one.
    std::atomic<bool> set;
    bool registered;
};

enum Which { kFilter = 0, kFilterFile = 1, kRecipients = 2, kCount = 3 };

TextVariable g_variables[kCount] = {
    {"filter",
     TACHO_VARIABLE("filter"),
     "Which statements are recorded, and how: rules in JSON; empty = all, whole",
     nullptr,
     nullptr,
     {false},
     false},
    {"filter_file",
     TACHO_VARIABLE("filter_file"),
     "File with the rules of " TACHO_VARIABLE("filter") ", read when this is set",
     nullptr,
     nullptr,
     {false},
     false},
    {"encryption_recipients_file",
     TACHO_VARIABLE("encryption_recipients_file"),
     "File with the public keys (age1...) that closed files are encrypted to, read when this is "
     "set; empty: they are not encrypted",
     nullptr,
     nullptr,
     {false},
     false},
};

bool is_set(const char* value) noexcept {
    return value != nullptr && value[0] != '\0';
}

const char* shown(Which which) noexcept {
    const char* value = g_variables[which].shown;
    return value != nullptr ? value : "";
}

int refuse(Which which, const char* why) noexcept {
    if (which == kRecipients) {
        // The server says that the value is wrong, and has no message with room for the reason.
        char message[1200];
        snprintf(message, sizeof(message), "%s: %s", g_variables[which].full_name, why);
        tacho_embed_log(1, message);
        return 1;
    }
    mysql_error_service_printf(ER_INVALID_JSON_DATA, MYF(0), g_variables[which].full_name, why);
    return 1;
}

// The recorder's opinion of a value.
bool try_value(Which which, const tacho_who* who, const char* text, bool apply, char* error,
               size_t error_bytes) noexcept {
    if (g_recorder == nullptr) {
        return true;
    }
    if (which == kRecipients) {
        const uint32_t mode = apply ? TACHO_ENCRYPTION_APPLY : TACHO_ENCRYPTION_CHECK;
        return tacho_embed_encryption(g_recorder, who, text, mode, error, error_bytes);
    }
    const uint32_t flags = (which == kFilterFile && is_set(text) ? TACHO_FILTER_FILE : 0) |
                           (apply ? TACHO_FILTER_APPLY : 0);
    return tacho_embed_filter(g_recorder, who, g_variables[kFilter].full_name, text, flags, error,
                              error_bytes);
}

template <Which kWhich>
int check(MYSQL_THD thd, SYS_VAR*, void* save, st_mysql_value* value) noexcept {
    if (!may_change(thd)) {
        return 1;
    }
    // Without room of ours, what the server hands out lives until the statement ends.
    char no_room[1] = "";
    int length = 0;
    const char* text = value->val_str(value, no_room, &length);
    if (text == nullptr || text == no_room || length == 0) {
        text = "";
        length = 0;
    }
    if (memchr(text, 0, static_cast<size_t>(length)) != nullptr) {
        return refuse(kWhich, "the value has a NUL in it");
    }
    const Which other = kWhich == kFilter ? kFilterFile : kFilter;
    if (kWhich != kRecipients && is_set(text) &&
        g_variables[other].set.load(std::memory_order_relaxed)) {
        return refuse(kWhich, kBoth);
    }
    char error[1024] = "";
    if (is_set(text) && !try_value(kWhich, nullptr, text, false, error, sizeof(error))) {
        return refuse(kWhich, error);
    }
    *static_cast<const char**>(save) = text;
    return 0;
}

void keep(TextVariable* variable, const char* text) noexcept {
    char* copy = strdup(text);
    if (copy == nullptr) {
        tacho_embed_log(2, "there is not enough memory to show the value of a variable");
        return;
    }
    variable->shown = copy;
    // Readers hold the lock on system variables while they copy.
    free(variable->owned);
    variable->owned = copy;
    variable->set.store(is_set(copy), std::memory_order_relaxed);
}

// A file may have changed since it was checked: then what was in effect stays, and so does the
// value of the variable.
template <Which kWhich> void update(MYSQL_THD thd, SYS_VAR*, void*, const void* save) noexcept {
    // See variables.cc: of DEFAULT the check function is not told.
    if (!may_change(thd)) {
        return;
    }
    const char* wanted = *static_cast<const char* const*>(save);
    TextVariable* variable = &g_variables[kWhich];
    const Which other = kWhich == kFilter ? kFilterFile : kFilter;
    const bool other_set = kWhich != kRecipients && is_set(shown(other));
    if (other_set && is_set(wanted)) {
        // Only one statement that sets both comes here.
        tacho_embed_log(2, kBoth);
        return;
    }
    const tacho_who who = who_of(thd);
    char error[1024] = "";
    // Who clears one of them leaves the other in effect.
    if (!other_set && !try_value(kWhich, &who, wanted, true, error, sizeof(error))) {
        char message[1200];
        snprintf(message, sizeof(message), "%s: %s; what was in effect stays", variable->full_name,
                 error);
        tacho_embed_log(2, message);
        return;
    }
    // Of rules the recorder tells the log itself, of a file it does not know the name.
    if (kWhich != kFilter && g_recorder != nullptr && strcmp(shown(kWhich), wanted) != 0) {
        tacho_embed_note_config(g_recorder, &who, variable->full_name, shown(kWhich), wanted);
    }
    keep(variable, wanted);
}

template <Which kWhich> bool add() noexcept {
    TextVariable* variable = &g_variables[kWhich];
    STR_CHECK_ARG(text) arg;
    static char empty[] = "";
    arg.def_val = empty;
    variable->registered =
        register_variable(variable->name, PLUGIN_VAR_STR | PLUGIN_VAR_RQCMDARG, variable->comment,
                          check<kWhich>, update<kWhich>, &arg, &variable->shown);
    return variable->registered;
}

} // namespace

bool register_text_variables() noexcept {
    return add<kFilter>() && add<kFilterFile>() && add<kRecipients>();
}

bool unregister_text_variables() noexcept {
    for (TextVariable& variable : g_variables) {
        if (!variable.registered) {
            continue;
        }
        if (!unregister_variable(variable.name)) {
            return false;
        }
        variable.registered = false;
        variable.shown = nullptr;
        free(variable.owned);
        variable.owned = nullptr;
        variable.set.store(false, std::memory_order_relaxed);
    }
    return true;
}

void forget_text_variables() noexcept {
    for (TextVariable& variable : g_variables) {
        variable.shown = nullptr;
        variable.owned = nullptr;
        variable.set.store(false, std::memory_order_relaxed);
    }
}

void apply_text_variables(const tacho_embed* recorder) noexcept {
    for (TextVariable& variable : g_variables) {
        variable.set.store(is_set(variable.shown), std::memory_order_relaxed);
    }
    char error[1024] = "";
    char message[1300];
    const bool from_file = is_set(shown(kFilterFile));
    const bool both = from_file && is_set(shown(kFilter));
    const char* filter = from_file ? shown(kFilterFile) : shown(kFilter);
    const uint32_t flags = TACHO_FILTER_APPLY | (from_file ? TACHO_FILTER_FILE : 0);
    if (is_set(filter) &&
        (both || !tacho_embed_filter(recorder, nullptr, g_variables[kFilter].full_name, filter,
                                     flags, error, sizeof(error)))) {
        snprintf(message, sizeof(message),
                 "%s: %s. Everything is recorded until a right filter is set",
                 g_variables[from_file ? kFilterFile : kFilter].full_name, both ? kBoth : error);
        tacho_embed_log(2, message);
    }
    const char* recipients = shown(kRecipients);
    if (is_set(recipients) &&
        !tacho_embed_encryption(recorder, nullptr, recipients, TACHO_ENCRYPTION_BEGIN, error,
                                sizeof(error))) {
        snprintf(
            message, sizeof(message),
            "%s: %s. The log is recorded and NOT ENCRYPTED until a right file is set; what was "
            "closed by then is encrypted then",
            g_variables[kRecipients].full_name, error);
        tacho_embed_log(2, message);
    }
}

} // namespace tacho
