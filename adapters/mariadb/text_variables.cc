// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// tacho_filter, tacho_filter_file and tacho_encryption_recipients_file.
#include "text_variables.h"

#include "../common/text_settings.h"
#include "who.h"

namespace tacho {

namespace {

// ER_WRONG_VALUE_FOR_VAR of the server, which is in no header for plugins.
constexpr unsigned int kWrongValue = 1231;

int refuse(TextNumber number, const char* why) noexcept {
    my_printf_error(kWrongValue, "%s: %s", MYF(0), g_texts[number].full_name, why);
    return 1;
}

template <TextNumber kNumber>
int check(MYSQL_THD thd, st_mysql_sys_var*, void* save, st_mysql_value* value) noexcept {
    char buffer[256];
    int length = sizeof(buffer);
    const char* text = value->val_str(value, buffer, &length);
    if (text == nullptr) {
        text = "";
        length = 0;
    }
    // It has to live as long as the statement, also if the server has put it into our buffer.
    text = thd_strmake(thd, text, static_cast<size_t>(length));
    if (text == nullptr) {
        return refuse(kNumber, "there is not enough memory");
    }
    char why[1024] = "";
    if (!check_text(g_recorder, kNumber, text, static_cast<size_t>(length), why, sizeof(why))) {
        return refuse(kNumber, why);
    }
    *static_cast<const char**>(save) = text;
    return 0;
}

template <TextNumber kNumber>
void update(MYSQL_THD thd, st_mysql_sys_var*, void*, const void* save) noexcept {
    update_text(g_recorder, kNumber, who_of(thd), *static_cast<const char* const*>(save));
}

MYSQL_SYSVAR_STR(filter, g_texts[kFilter].shown, PLUGIN_VAR_RQCMDARG, g_texts[kFilter].comment,
                 check<kFilter>, update<kFilter>, "");
MYSQL_SYSVAR_STR(filter_file, g_texts[kFilterFile].shown, PLUGIN_VAR_RQCMDARG,
                 g_texts[kFilterFile].comment, check<kFilterFile>, update<kFilterFile>, "");
MYSQL_SYSVAR_STR(encryption_recipients_file, g_texts[kRecipients].shown, PLUGIN_VAR_RQCMDARG,
                 g_texts[kRecipients].comment, check<kRecipients>, update<kRecipients>, "");

} // namespace

st_mysql_sys_var* const kFilterVariable = MYSQL_SYSVAR(filter);
st_mysql_sys_var* const kFilterFileVariable = MYSQL_SYSVAR(filter_file);
st_mysql_sys_var* const kEncryptionRecipientsFileVariable =
    MYSQL_SYSVAR(encryption_recipients_file);

} // namespace tacho
