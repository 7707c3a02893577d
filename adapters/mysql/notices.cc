// Zone: hot
// SPDX-License-Identifier: GPL-2.0-only
//
// Events other than statements, in classes that are recorded only if tacho.event_classes requests
// them: one line each. They never stop the server from doing anything.
#include "database.h"
#include "event_classes.h"
#include "events.h"
#include "records.h"
#include "thread_state.h"

#include <charconv>
#include <cstring>

namespace tacho {

namespace {

// Longest text of a record that must be assembled first.
constexpr size_t kPackedBytesMax = 16000;
// A thread's own overflow policy is one of enum tacho_setting's values, plus one.
constexpr uint32_t kDrop = 2 + 1;

// Such a text, and its length without truncation.
struct Packed {
    size_t used = 0;
    uint64_t whole = 0;
    char bytes[kPackedBytesMax];

    size_t room() const noexcept {
        return kPackedBytesMax - used;
    }
    void put(const void* from, size_t length) noexcept {
        if (length != 0) {
            memcpy(bytes + used, from, length);
            used += length;
        }
    }
};

// Whether these may be the names of a program's definer instead of the connected user, who is
// unknown if the outermost statement is not recorded.
bool is_nested(const Identity& who) noexcept {
    return t_state.traced > 1 || t_state.depth > 1 || t_state.is_inner || !t_state.has_caller ||
           t_state.caller.user != who.user.str;
}

void begin_notice(int32_t which, uint64_t conn, int64_t now_us, tacho_event* out) noexcept {
    begin_event(TACHO_KIND_NOTICE, conn, now_us, out);
    clear_strings(out);
    out->sql_command = which;
}

// A notice of the session that executes the current statement.
struct Notice {
    MYSQL_THD thd;
    tacho_session* session;
    tacho_event out;

    Notice(const tacho_probe* probe, int32_t which, uint64_t conn) noexcept
        : thd(current_session()) {
        const int64_t now_us = microseconds(CLOCK_REALTIME);
        session = tacho_probe_session(probe, conn, now_us);
        begin_notice(which, conn, now_us, &out);
        const Identity who = identity_of(thd);
        if (is_nested(who)) {
            out.present |= TACHO_PRESENT_NESTED;
        }
        set_identity(who, &out);
        // For the rules that apply to the line.
        out.strings[TACHO_STRING_COMMAND] = command_name();
        // If it is unknown it is not fetched: the server may hold locks.
        if (!t_state.is_inner) {
            out.strings[TACHO_STRING_DB] = known_database(conn);
        }
    }
    void about(tacho_bytes first, tacho_bytes second) noexcept {
        out.strings[TACHO_STRING_PROXY_USER] = first;
        out.strings[TACHO_STRING_OS_USER] = second;
    }
    void say(tacho_bytes text) noexcept {
        out.text = text;
        out.present |= TACHO_PRESENT_TEXT;
    }
    void record(const tacho_probe* probe) noexcept {
        emit(probe, thd, session, out);
    }
};

// No more than `room` bytes, and no partial UTF-8 character.
size_t cut(const mysql_cstring_with_length& text, size_t room) noexcept {
    if (text.length <= room) {
        return text.length;
    }
    while (room != 0 && (static_cast<unsigned char>(text.str[room]) & 0xC0) == 0x80) {
        --room;
    }
    return room;
}

constexpr size_t kLengths = 2 * sizeof(uint32_t);
// Longest number in decimal digits.
constexpr size_t kDigitsMax = 24;

tacho_bytes decimal(long long number, char (&digits)[kDigitsMax]) noexcept {
    const auto written = std::to_chars(digits, digits + kDigitsMax, number);
    return bytes_of(digits, static_cast<size_t>(written.ptr - digits));
}

using Attribute = mysql_event_tracking_message_key_value_t;

// Value of an attribute: `text_type` is the type of text values, and `digits` a buffer for a
// number.
tacho_bytes value_of(const Attribute& attribute, int text_type,
                     char (&digits)[kDigitsMax]) noexcept {
    if (attribute.value_type == text_type) {
        return bytes_of(attribute.value.str.str, attribute.value.str.length);
    }
    return decimal(attribute.value.num, digits);
}

uint64_t attribute_bytes(const mysql_event_tracking_message_data* in, int text_type) noexcept {
    uint64_t bytes = 0;
    char digits[kDigitsMax];
    for (size_t i = 0; i < in->key_value_map_length; ++i) {
        const Attribute& attribute = in->key_value_map[i];
        bytes += attribute.key.length + value_of(attribute, text_type, digits).len;
    }
    return bytes;
}

void pack_attribute(const Attribute& attribute, int text_type, Packed* packed) noexcept {
    char digits[kDigitsMax];
    const tacho_bytes value = value_of(attribute, text_type, digits);
    if (attribute.key.length > packed->room() || value.len > packed->room() ||
        kLengths + attribute.key.length + value.len > packed->room()) {
        return;
    }
    const uint32_t lengths[] = {static_cast<uint32_t>(attribute.key.length),
                                static_cast<uint32_t>(value.len)};
    packed->put(lengths, kLengths);
    packed->put(attribute.key.str, attribute.key.length);
    packed->put(value.data, value.len);
}

// The message, followed by its attributes: it gets the space that they leave, or half. Returns its
// length.
size_t pack(const mysql_event_tracking_message_data* in, int text_type, Packed* packed) noexcept {
    const uint64_t attributes = attribute_bytes(in, text_type);
    const uint64_t stored = attributes + in->key_value_map_length * kLengths;
    constexpr size_t kHalf = kPackedBytesMax / 2;
    const size_t room = stored < kHalf ? kPackedBytesMax - static_cast<size_t>(stored) : kHalf;
    const size_t message = cut(in->message, room);
    packed->put(in->message.str, message);
    for (size_t i = 0; i < in->key_value_map_length; ++i) {
        pack_attribute(in->key_value_map[i], text_type, packed);
    }
    packed->whole = in->message.length + attributes;
    if (packed->used == in->message.length + stored) {
        packed->whole = 0;
    }
    return message;
}

// In `figures`: length of the message itself; length of the original, if that is longer.
void set_packed(const Packed& packed, size_t message, tacho_event* out) noexcept {
    memset(out->figures, 0, sizeof(out->figures));
    out->figures[0] = message;
    out->figures[1] = packed.whole;
    out->present |= TACHO_PRESENT_FIGURES | TACHO_PRESENT_TEXT;
    out->text = bytes_of(packed.bytes, packed.used);
}

int32_t which_of(mysql_event_tracking_authentication_subclass_t subclass) noexcept {
    switch (subclass) {
    case EVENT_TRACKING_AUTHENTICATION_FLUSH:
        return TACHO_NOTICE_FLUSH;
    case EVENT_TRACKING_AUTHENTICATION_AUTHID_CREATE:
        return TACHO_NOTICE_AUTHID_CREATE;
    case EVENT_TRACKING_AUTHENTICATION_CREDENTIAL_CHANGE:
        return TACHO_NOTICE_CREDENTIAL_CHANGE;
    case EVENT_TRACKING_AUTHENTICATION_AUTHID_RENAME:
        return TACHO_NOTICE_AUTHID_RENAME;
    case EVENT_TRACKING_AUTHENTICATION_AUTHID_DROP:
        return TACHO_NOTICE_AUTHID_DROP;
    default:
        return 0;
    }
}

void pack_arguments(const mysql_event_tracking_startup_data* in, Packed* packed) noexcept {
    // The count is that of the process; a null follows the last argument that the server has left.
    for (unsigned int i = 0; i < in->argc && in->argv[i] != nullptr; ++i) {
        // Including the NUL.
        const size_t length = strlen(in->argv[i]) + 1;
        packed->put(in->argv[i], length < packed->room() ? length : packed->room());
        packed->whole += length;
    }
    if (packed->whole == packed->used) {
        packed->whole = 0;
    }
}

// Without a session; the server's start or end must not wait for space.
void emit_lifecycle(const tacho_probe* probe, const tacho_event& out) noexcept {
    t_state.probe.overflow = kDrop;
    emit(probe, nullptr, nullptr, out);
    t_state.probe.overflow = 0;
}

// The recorder, if it now records events of this class. Events that an earlier one requested still
// arrive if another component uses them.
const tacho_probe* recording(const Visit& visit, uint32_t classes) noexcept {
    if (visit.probe() == nullptr || !takes(classes) || !tacho_probe_logging(visit.probe())) {
        return nullptr;
    }
    enter(visit);
    return visit.probe();
}

} // namespace

mysql_service_status_t
notify_authentication(const mysql_event_tracking_authentication_data* in) noexcept {
    const Visit visit(in->connection_id);
    const tacho_probe* probe = recording(visit, kClassAuthentication);
    const int32_t which = which_of(in->event_subclass);
    if (probe != nullptr && which != 0) {
        Notice notice(probe, which, in->connection_id);
        notice.out.error_code = in->status != 0 ? 1 : 0;
        notice.about(bytes_of(in->user), bytes_of(in->host));
        notice.record(probe);
    }
    return 0;
}

mysql_service_status_t
notify_global_variable(const mysql_event_tracking_global_variable_data* in) noexcept {
    // Most of these events are reads of variables.
    if (in->event_subclass != EVENT_TRACKING_GLOBAL_VARIABLE_SET) {
        return 0;
    }
    const Visit visit(in->connection_id);
    if (const tacho_probe* probe = recording(visit, kClassGlobalVariable)) {
        Notice notice(probe, TACHO_NOTICE_SET, in->connection_id);
        notice.about(bytes_of(in->variable_name), {nullptr, 0});
        notice.say(bytes_of(in->variable_value));
        notice.record(probe);
    }
    return 0;
}

void record_message(const mysql_event_tracking_message_data* in, int text_type) noexcept {
    const Visit visit(in->connection_id);
    if (const tacho_probe* probe = recording(visit, kClassMessage)) {
        const bool is_users = in->event_subclass == EVENT_TRACKING_MESSAGE_USER;
        Notice notice(probe, is_users ? TACHO_NOTICE_USER : TACHO_NOTICE_INTERNAL,
                      in->connection_id);
        notice.about(bytes_of(in->component), bytes_of(in->producer));
        Packed packed;
        const size_t message = pack(in, text_type, &packed);
        set_packed(packed, message, &notice.out);
        notice.record(probe);
    }
}

mysql_service_status_t notify_message(const mysql_event_tracking_message_data* in) noexcept {
    record_message(in, EVENT_TRACKING_MESSAGE_VALUE_TYPE_STR);
    return 0;
}

mysql_service_status_t
notify_stored_program(const mysql_event_tracking_stored_program_data* in) noexcept {
    const Visit visit(in->connection_id);
    if (const tacho_probe* probe = recording(visit, kClassStoredProgram)) {
        Notice notice(probe, TACHO_NOTICE_EXECUTE, in->connection_id);
        notice.about(bytes_of(in->database), bytes_of(in->name));
        notice.record(probe);
    }
    return 0;
}

mysql_service_status_t notify_startup(const mysql_event_tracking_startup_data* in) noexcept {
    const Visit visit(0);
    if (const tacho_probe* probe = recording(visit, kClassLifecycle)) {
        tacho_event out;
        begin_notice(TACHO_NOTICE_STARTUP, 0, microseconds(CLOCK_REALTIME), &out);
        Packed packed;
        pack_arguments(in, &packed);
        set_packed(packed, packed.used, &out);
        emit_lifecycle(probe, out);
    }
    return 0;
}

mysql_service_status_t notify_shutdown(const mysql_event_tracking_shutdown_data* in) noexcept {
    const Visit visit(0);
    if (const tacho_probe* probe = recording(visit, kClassLifecycle)) {
        tacho_event out;
        begin_notice(TACHO_NOTICE_SHUTDOWN, 0, microseconds(CLOCK_REALTIME), &out);
        const bool is_abort = in->reason == EVENT_TRACKING_SHUTDOWN_REASON_ABORT;
        out.strings[TACHO_STRING_PROXY_USER] = bytes_of(is_abort ? "abort" : "shutdown");
        char digits[kDigitsMax];
        out.text = decimal(in->exit_code, digits);
        out.present = TACHO_PRESENT_TEXT;
        emit_lifecycle(probe, out);
    }
    return 0;
}

} // namespace tacho
