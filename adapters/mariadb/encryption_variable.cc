// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// tacho_encryption_recipients_file: the file is read when the variable is set, and checked before
// it takes effect.
#include "encryption_variable.h"
#include "who.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tacho {

namespace {

constexpr char kName[] = "tacho_encryption_recipients_file";
// ER_WRONG_VALUE_FOR_VAR of the server, which is in no header for plugins.
constexpr unsigned int kWrongValue = 1231;

char* v_encryption_recipients_file;
// Copy of the value, which the server only points to.
char* g_shown;

int refuse(const char* why) noexcept {
    my_printf_error(kWrongValue, "%s: %s", MYF(0), kName, why);
    return 1;
}

// The text lives as long as the statement, also if the server has put it into our buffer.
int check(MYSQL_THD thd, st_mysql_sys_var*, void* save, st_mysql_value* value) noexcept {
    char buffer[256];
    int length = sizeof(buffer);
    const char* text = value->val_str(value, buffer, &length);
    if (text == nullptr) {
        text = "";
        length = 0;
    }
    if (memchr(text, 0, static_cast<size_t>(length)) != nullptr) {
        return refuse("the value has a NUL in it");
    }
    text = thd_strmake(thd, text, static_cast<size_t>(length));
    if (text == nullptr) {
        return refuse("there is not enough memory");
    }
    char error[1024] = "";
    if (g_recorder != nullptr &&
        !tacho_embed_encryption(g_recorder, nullptr, text, TACHO_ENCRYPTION_CHECK, error,
                                sizeof(error))) {
        return refuse(error);
    }
    *static_cast<const char**>(save) = text;
    return 0;
}

// The file may have changed since it was checked: then the keys before stay, and so does the value
// of the variable.
void update(MYSQL_THD thd, st_mysql_sys_var*, void*, const void* save) noexcept {
    const char* wanted = *static_cast<const char* const*>(save);
    const char* shown = v_encryption_recipients_file != nullptr ? v_encryption_recipients_file : "";
    char error[1024] = "";
    const tacho_who who = who_of(thd);
    if (g_recorder != nullptr) {
        if (!tacho_embed_encryption(g_recorder, &who, wanted, TACHO_ENCRYPTION_APPLY, error,
                                    sizeof(error))) {
            char message[1200];
            snprintf(message, sizeof(message), "%s: %s; the keys before stay", kName, error);
            tacho_embed_log(2, message);
            return;
        }
        if (strcmp(shown, wanted) != 0) {
            tacho_embed_note_config(g_recorder, &who, kName, shown, wanted);
        }
    }
    char* copy = strdup(wanted);
    if (copy == nullptr) {
        tacho_embed_log(2, "there is not enough memory to show tacho_encryption_recipients_file");
        return;
    }
    v_encryption_recipients_file = copy;
    free(g_shown);
    g_shown = copy;
}

MYSQL_SYSVAR_STR(encryption_recipients_file, v_encryption_recipients_file, PLUGIN_VAR_RQCMDARG,
                 "File with the public keys (age1...) that closed files are encrypted to, read "
                 "when this is set; empty: they are not encrypted",
                 check, update, "");

} // namespace

st_mysql_sys_var* const kEncryptionRecipientsFileVariable =
    MYSQL_SYSVAR(encryption_recipients_file);

void apply_encryption(const tacho_embed* recorder) noexcept {
    const char* path = v_encryption_recipients_file;
    if (path == nullptr || path[0] == '\0') {
        return;
    }
    char error[1024] = "";
    if (tacho_embed_encryption(recorder, nullptr, path, TACHO_ENCRYPTION_BEGIN, error,
                               sizeof(error))) {
        return;
    }
    char message[1300];
    snprintf(message, sizeof(message),
             "%s: %s. The log is recorded and NOT ENCRYPTED until a right file is set; what was "
             "closed by then is encrypted then",
             kName, error);
    tacho_embed_log(2, message);
}

void forget_encryption() noexcept {
    // Not freed: SHOW VARIABLES of another session may be copying it at this moment.
    v_encryption_recipients_file = nullptr;
    g_shown = nullptr;
}

} // namespace tacho
