// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// tacho.filter, tacho.filter_file and tacho.encryption_recipients_file. A check function has no
// lock of the server; an update function has the one on system variables.
#include "text_variables.h"

#include "../common/text_settings.h"
#include "adapter.h"
#include "privilege.h"
#include "who.h"

#include <cstdio>
#include <initializer_list>

#include <mysqld_error.h>

namespace tacho {

namespace {

bool g_registered[kTextCount];

int refuse(TextNumber number, const char* why) noexcept {
    const char* name = g_texts[number].spec.full_name;
    if (number == kRecipients) {
        // The server reports that the value is wrong, and its message has no space for the reason.
        char message[1200];
        snprintf(message, sizeof(message), "%s: %s", name, why);
        tacho_embed_log(TACHO_SEVERITY_WARNING, message);
        return 1;
    }
    mysql_error_service_printf(ER_INVALID_JSON_DATA, MYF(0), name, why);
    return 1;
}

template <TextNumber kNumber>
int check(MYSQL_THD thd, SYS_VAR*, void* save, st_mysql_value* value) noexcept {
    if (!may_change(thd)) {
        return 1;
    }
    // Without a local buffer, the returned text lives until the statement ends.
    char no_room[1] = "";
    int length = 0;
    const char* text = value->val_str(value, no_room, &length);
    if (text == nullptr || text == no_room || length == 0) {
        text = "";
        length = 0;
    }
    char why[1024] = "";
    if (!check_text(g_recorder, kNumber, text, static_cast<size_t>(length), why, sizeof(why))) {
        return refuse(kNumber, why);
    }
    *static_cast<const char**>(save) = text;
    return 0;
}

template <TextNumber kNumber>
void update(MYSQL_THD thd, SYS_VAR*, void*, const void* save) noexcept {
    // See variables.cc: the check function is not called for DEFAULT.
    if (may_change(thd)) {
        update_text(g_recorder, kNumber, who_of(thd), *static_cast<const char* const*>(save));
    }
}

template <TextNumber kNumber> bool add() noexcept {
    TextSetting* setting = &g_texts[kNumber];
    STR_CHECK_ARG(text) arg;
    static char empty[] = "";
    arg.def_val = empty;
    g_registered[kNumber] = register_variable(
        setting->spec.name, PLUGIN_VAR_STR | PLUGIN_VAR_RQCMDARG, setting->spec.comment,
        check<kNumber>, update<kNumber>, &arg, &setting->shown);
    // A text given with INSTALL COMPONENT is freed when that statement ends. Not
    // PLUGIN_VAR_MEMALLOC: with it the server frees the shown text after each update, of which some
    // are refused. (8.0 has not read any text yet; its texts last.)
    return g_registered[kNumber] && own_text(kNumber);
}

} // namespace

bool register_text_variables() noexcept {
    return add<kFilter>() && add<kFilterFile>() && add<kRecipients>();
}

bool unregister_text_variables() noexcept {
    for (const TextNumber number : {kFilter, kFilterFile, kRecipients}) {
        if (!g_registered[number]) {
            continue;
        }
        if (!unregister_variable(g_texts[number].spec.name)) {
            return false;
        }
        g_registered[number] = false;
        drop_text(number);
    }
    return true;
}

} // namespace tacho
