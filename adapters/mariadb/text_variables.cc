// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "text_variables.h"

#include "who.h"

namespace tacho {

namespace {

// ER_WRONG_VALUE_FOR_VAR of the server, which no header for plugins has.
constexpr unsigned int kWrongValue = 1231;

int refuse(TextNumber number, const char* why) noexcept {
    my_printf_error(kWrongValue, "%s: %s", MYF(0), g_texts[number].spec.full_name, why);
    return 1;
}

} // namespace

int check_text_variable(TextNumber number, MYSQL_THD thd, void* save,
                        st_mysql_value* value) noexcept {
    char buffer[256];
    int length = sizeof(buffer);
    const char* text = value->val_str(value, buffer, &length);
    if (text == nullptr) {
        text = "";
        length = 0;
    }
    // It must live as long as the statement, even if the server used the local buffer.
    text = thd_strmake(thd, text, static_cast<size_t>(length));
    if (text == nullptr) {
        return refuse(number, "there is not enough memory");
    }
    char why[1024] = "";
    if (!check_text(g_recorder, number, text, static_cast<size_t>(length), why, sizeof(why))) {
        return refuse(number, why);
    }
    *static_cast<const char**>(save) = text;
    return 0;
}

void update_text_variable(TextNumber number, MYSQL_THD thd, const void* save) noexcept {
    update_text(g_recorder, number, who_of(thd), *static_cast<const char* const*>(save));
}

} // namespace tacho
