// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// What the server reports about the session of an event. The behaviour of its getters was read in
// the source (docs/specs/mysql-events.md): those of the first half compare names and copy a pointer
// or a number; ServerText allocates a copy of a text, and so must not be used for an ordinary
// statement.
#ifndef TACHO_MYSQL_SESSION_H
#define TACHO_MYSQL_SESSION_H

#include "../common/event.h"
#include "services.h"

namespace tacho {

inline tacho_bytes bytes_of(const MYSQL_LEX_CSTRING& text) noexcept {
    return bytes_of(text.str, text.length);
}

inline tacho_bytes bytes_of(const mysql_cstring_with_length& text) noexcept {
    return bytes_of(text.str, text.length);
}

// The session of this thread, or null.
inline MYSQL_THD current_session() noexcept {
    MYSQL_THD thd = nullptr;
    if (mysql_service_mysql_current_thread_reader->get(&thd) != 0) {
        return nullptr;
    }
    return thd;
}

// The strings end with a NUL and are valid until the session's user changes.
struct Identity {
    MYSQL_LEX_CSTRING user;
    MYSQL_LEX_CSTRING priv_user;
    MYSQL_LEX_CSTRING host;
    MYSQL_LEX_CSTRING ip;
};

inline Identity identity_of(MYSQL_THD thd) noexcept {
    Identity out = {};
    Security_context_handle context = nullptr;
    if (mysql_service_mysql_thd_security_context->get(thd, &context) != 0 || context == nullptr) {
        return out;
    }
    const auto* options = mysql_service_mysql_security_context_options;
    // A value that is not available stays empty.
    (void)options->get(context, "user", &out.user);
    (void)options->get(context, "priv_user", &out.priv_user);
    (void)options->get(context, "host", &out.host);
    (void)options->get(context, "ip", &out.ip);
    return out;
}

// Whether KILL requires the session to stop.
inline bool is_killed(const void* session) noexcept {
    auto* thd = static_cast<MYSQL_THD>(const_cast<void*>(session));
    uint16_t status = STATUS_SESSION_OK;
    return mysql_service_mysql_thd_attributes->get(thd, "thd_status", &status) == 0 &&
           status != STATUS_SESSION_OK;
}

// A figure of the session's statement; false: the server does not provide it.
inline bool figure_of(MYSQL_THD thd, my_h_string name, uint64_t* out) noexcept {
    long long value = 0;
    if (name == nullptr ||
        mysql_service_mysql_audit_print_service_longlong_data_source->get(thd, name, &value) != 0) {
        return false;
    }
    *out = static_cast<uint64_t>(value);
    return true;
}

// A text that the server provides only as a copy: allocated by it, and freed with this object.
class ServerText {
public:
    ServerText(MYSQL_THD thd, const char* name) noexcept {
        if (mysql_service_mysql_thd_attributes->get(thd, name, &handle_) != 0) {
            handle_ = nullptr;
            return;
        }
        CHARSET_INFO_h charset = nullptr;
        if (mysql_service_mysql_string_get_data_in_charset->get_data(handle_, &data_, &length_,
                                                                     &charset) != 0) {
            length_ = 0;
        }
    }
    ~ServerText() noexcept {
        if (handle_ != nullptr) {
            mysql_service_mysql_string_factory->destroy(handle_);
        }
    }
    ServerText(const ServerText&) = delete;
    ServerText& operator=(const ServerText&) = delete;

    tacho_bytes bytes() const noexcept {
        return bytes_of(data_, length_);
    }

private:
    my_h_string handle_ = nullptr;
    const char* data_ = nullptr;
    size_t length_ = 0;
};

} // namespace tacho

#endif
