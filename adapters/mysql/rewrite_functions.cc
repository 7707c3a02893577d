// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// A load is one statement: tacho_rewrite_load is an aggregate function, which takes a rule from
// each row, and puts all of them in force after the last one. So no state must be kept for a
// session between statements, and two concurrent loads are both complete. Their numbers show which
// one has read the newer rules: tacho_rewrite_turn returns one before the rules are read, and a
// load that was overtaken by one with a higher number changes nothing. So loads need no lock that a
// session could keep.
//
// Called on threads of the server that execute statements, and so with the locks of those
// statements; a load writes a file. A lock of this component keeps the recorder alive meanwhile.
#include "rewrite_functions.h"

#include "../common/message.h"
#include "adapter.h"
#include "privilege.h"
#include "who.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <mysqld_error.h>
#include <pthread.h>

namespace tacho {

namespace {

constexpr char kLoad[] = "tacho_rewrite_load";
constexpr char kCheck[] = "tacho_rewrite_check";
constexpr char kDigest[] = "tacho_rewrite_digest";
constexpr char kNormalized[] = "tacho_rewrite_normalized";
constexpr char kTurn[] = "tacho_rewrite_turn";

// Buffer for an answer: a pattern without its literals, with blanks between its words.
constexpr size_t kTextBytes = 65536;
// The longest answer of a load: the errors of 100,000 rules.
constexpr size_t kAnswerBytesMax = 16777215;
// The server's buffer for a message of an init function (MYSQL_ERRMSG_SIZE).
constexpr size_t kMessageBytes = 512;

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
// Under the lock; null: there is no recorder, and the services must not be used.
const tacho_embed* g_open = nullptr;

class Guard {
public:
    Guard() noexcept {
        pthread_mutex_lock(&g_lock);
    }
    ~Guard() noexcept {
        pthread_mutex_unlock(&g_lock);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
};

void set_message(char* message, const char* text) noexcept {
    snprintf(message, kMessageBytes, "%s", text);
}

// Requires an argument of this type, in UTF-8 if it is a text.
bool want(UDF_ARGS* in, unsigned index, Item_result type) noexcept {
    static char charset[] = "utf8mb4";
    in->arg_type[index] = type;
    return type != STRING_RESULT ||
           mysql_service_mysql_udf_metadata->argument_set(in, "charset", index, charset) == 0;
}

bool answers_in_utf8(UDF_INIT* function) noexcept {
    static char charset[] = "utf8mb4";
    return mysql_service_mysql_udf_metadata->result_set(function, "charset", charset) == 0;
}

bool want_texts(UDF_ARGS* in, unsigned first) noexcept {
    for (unsigned index = first; index < in->arg_count && index < 4; ++index) {
        if (!want(in, index, STRING_RESULT)) {
            return false;
        }
    }
    return true;
}

tacho_bytes text_of(const UDF_ARGS* in, unsigned index) noexcept {
    return {in->args[index], in->args[index] == nullptr ? 0 : in->lengths[index]};
}

// One load. The list is null after it was applied; then there is an answer.
struct Load {
    tacho_rewrite_list* list;
    char* answer;
    // 0: it has no number.
    uint64_t turn;
};

Load* load_of(UDF_INIT* function) noexcept {
    return reinterpret_cast<Load*>(function->ptr);
}

uint64_t number_of(const UDF_ARGS* in, unsigned index) noexcept {
    const auto* number = reinterpret_cast<const long long*>(in->args[index]);
    return number == nullptr ? 0 : static_cast<uint64_t>(*number);
}

// The number of the load follows the columns, and is the same for all rows.
void note_turn(Load* load, const UDF_ARGS* in) noexcept {
    if (in->arg_count == 5 && in->args[4] != nullptr) {
        load->turn = number_of(in, 4);
    }
}

bool load_init(UDF_INIT* function, UDF_ARGS* in, char* message) noexcept {
    if (in->arg_count != 4 && in->arg_count != 5) {
        set_message(message, "expected (id, pattern, pattern_database, replacement [, turn])");
        return true;
    }
    const Guard guard;
    if (g_open == nullptr) {
        set_message(message, "the recorder is not there");
        return true;
    }
    // Reports the reason itself.
    if (!may_load(current_session())) {
        set_message(message, "SUPER, or TACHO_ADMIN and SYSTEM_VARIABLES_ADMIN, are needed");
        return true;
    }
    if (!want(in, 0, INT_RESULT) || !want_texts(in, 1) ||
        (in->arg_count == 5 && !want(in, 4, INT_RESULT)) || !answers_in_utf8(function)) {
        set_message(message, "the texts cannot be converted to utf8mb4");
        return true;
    }
    auto* load = static_cast<Load*>(calloc(1, sizeof(Load)));
    if (load == nullptr) {
        set_message(message, "out of memory");
        return true;
    }
    load->list = tacho_embed_rewrite_begin();
    function->ptr = reinterpret_cast<char*>(load);
    function->maybe_null = true;
    function->max_length = kAnswerBytesMax;
    return false;
}

void load_deinit(UDF_INIT* function) noexcept {
    Load* load = load_of(function);
    if (load != nullptr) {
        tacho_embed_rewrite_cancel(load->list);
        free(load->answer);
        free(load);
        function->ptr = nullptr;
    }
}

// Rows begin; more than once if a statement was prepared.
void load_clear(UDF_INIT* function, unsigned char*, unsigned char*) noexcept {
    Load* load = load_of(function);
    tacho_embed_rewrite_cancel(load->list);
    load->list = tacho_embed_rewrite_begin();
    free(load->answer);
    load->answer = nullptr;
}

// A wrong rule is left out; the answer has the reason.
void load_add(UDF_INIT* function, UDF_ARGS* in, unsigned char*, unsigned char*) noexcept {
    Load* load = load_of(function);
    if (load->list == nullptr) {
        return;
    }
    note_turn(load, in);
    tacho_rewrite_rule rule;
    rule.id = number_of(in, 0);
    rule.pattern = text_of(in, 1);
    rule.pattern_database = text_of(in, 2);
    rule.replacement = text_of(in, 3);
    char message[8];
    (void)tacho_embed_rewrite_add(load->list, &rule, message, sizeof(message));
}

// Allocates an answer, with everything except the number of rules. Null: out of memory.
char* begin_answer(const tacho_rewrite_list* list) noexcept {
    constexpr size_t kRest = 64;
    const size_t bytes = tacho_embed_rewrite_faults(list, nullptr, 0);
    auto* answer = static_cast<char*>(malloc(bytes + kRest));
    if (answer != nullptr) {
        const int start = snprintf(answer, kRest, "{\"left_out\": ");
        tacho_embed_rewrite_faults(list, answer + start, bytes + 1);
    }
    return answer;
}

void end_answer(char* answer, uint64_t count) noexcept {
    // At most twenty digits: `begin_answer` has left space.
    snprintf(answer + strlen(answer), 40, ", \"loaded\": %llu}",
             static_cast<unsigned long long>(count));
}

// False: the rules in force stay, and the statement fails.
bool apply(Load* load) noexcept {
    const Guard guard;
    if (g_open == nullptr) {
        return false;
    }
    MYSQL_THD thd = current_session();
    if (!may_load(thd)) {
        return false;
    }
    tacho_rewrite_list* list = load->list;
    load->answer = begin_answer(list);
    if (load->answer == nullptr) {
        mysql_error_service_printf(ER_UDF_ERROR, MYF(0), kLoad, "out of memory");
        return false;
    }
    load->list = nullptr;
    const tacho_who who = who_of(thd);
    uint64_t count = 0;
    char error[1024] = "";
    if (!tacho_embed_rewrite_apply(g_open, &who, list, load->turn, &count, error, sizeof(error))) {
        mysql_error_service_printf(ER_UDF_ERROR, MYF(0), kLoad, error);
        free(load->answer);
        load->answer = nullptr;
        return false;
    }
    if (count == TACHO_REWRITE_SUPERSEDED) {
        // `begin_answer` has left space.
        snprintf(load->answer, 24, "{\"superseded\": true}");
    } else {
        end_answer(load->answer, count);
    }
    return true;
}

// No more rows. The server may read the answer again.
char* load_result(UDF_INIT* function, UDF_ARGS* in, char*, unsigned long* length,
                  unsigned char* is_null, unsigned char* error) noexcept {
    Load* load = load_of(function);
    // Without any row, the turn is still unknown.
    note_turn(load, in);
    if (load->answer == nullptr && (load->list == nullptr || !apply(load))) {
        *is_null = 1;
        *error = 1;
        return nullptr;
    }
    *is_null = 0;
    *length = strlen(load->answer);
    return load->answer;
}

// The other functions need no recorder.
bool text_init(UDF_INIT* function, UDF_ARGS* in, char* message, unsigned arguments,
               const char* expected) noexcept {
    if (in->arg_count != arguments) {
        set_message(message, expected);
        return true;
    }
    {
        const Guard guard;
        if (g_open == nullptr) {
            set_message(message, "the recorder is not there");
            return true;
        }
        if (!want_texts(in, 0) || !answers_in_utf8(function)) {
            set_message(message, "the texts cannot be converted to utf8mb4");
            return true;
        }
    }
    function->ptr = static_cast<char*>(malloc(kTextBytes));
    if (function->ptr == nullptr) {
        set_message(message, "out of memory");
        return true;
    }
    function->maybe_null = true;
    function->max_length = kTextBytes;
    return false;
}

bool check_init(UDF_INIT* function, UDF_ARGS* in, char* message) noexcept {
    return text_init(function, in, message, 3, "expected (pattern, pattern_database, replacement)");
}

bool pattern_init(UDF_INIT* function, UDF_ARGS* in, char* message) noexcept {
    return text_init(function, in, message, 1, "expected (pattern)");
}

void text_deinit(UDF_INIT* function) noexcept {
    free(function->ptr);
    function->ptr = nullptr;
}

// The content of the function's buffer, or NULL.
char* answer(UDF_INIT* function, bool there, unsigned long* length,
             unsigned char* is_null) noexcept {
    *is_null = there ? 0 : 1;
    *length = there ? strlen(function->ptr) : 0;
    return there ? function->ptr : nullptr;
}

char* check(UDF_INIT* function, UDF_ARGS* in, char*, unsigned long* length, unsigned char* is_null,
            unsigned char*) noexcept {
    tacho_rewrite_list* list = tacho_embed_rewrite_begin();
    const tacho_rewrite_rule rule = {1, text_of(in, 0), text_of(in, 1), text_of(in, 2)};
    const bool wrong = tacho_embed_rewrite_add(list, &rule, function->ptr, kTextBytes) != 0;
    tacho_embed_rewrite_cancel(list);
    return answer(function, wrong, length, is_null);
}

char* digest(UDF_INIT* function, UDF_ARGS* in, char*, unsigned long* length, unsigned char* is_null,
             unsigned char*) noexcept {
    const bool there = tacho_embed_rewrite_digest(text_of(in, 0), function->ptr, kTextBytes) != 0;
    return answer(function, there, length, is_null);
}

char* normalized(UDF_INIT* function, UDF_ARGS* in, char*, unsigned long* length,
                 unsigned char* is_null, unsigned char*) noexcept {
    const bool there =
        tacho_embed_rewrite_normalized(text_of(in, 0), function->ptr, kTextBytes) != 0;
    return answer(function, there, length, is_null);
}

bool turn_init(UDF_INIT* function, UDF_ARGS* in, char* message) noexcept {
    if (in->arg_count > 1) {
        set_message(message, "expected () or (turn)");
        return true;
    }
    if (in->arg_count == 1 && !want(in, 0, INT_RESULT)) {
        return true;
    }
    function->maybe_null = true;
    // Evaluated for each row.
    function->const_item = false;
    return false;
}

// Without an argument: a number for a load. With a number: whether the rules in force are those of
// that load. NULL: the recorder is not there.
long long turn(UDF_INIT*, UDF_ARGS* in, unsigned char* is_null, unsigned char*) noexcept {
    const Guard guard;
    *is_null = g_open == nullptr ? 1 : 0;
    if (g_open == nullptr) {
        return 0;
    }
    if (in->arg_count == 0) {
        return static_cast<long long>(tacho_embed_rewrite_turn(g_open));
    }
    return tacho_embed_rewrite_is_current(g_open, number_of(in, 0)) ? 1 : 0;
}

// The functions that the server has accepted.
struct Registered {
    const char* name;
    bool there;
    // At its removal a statement still used it: the server may still have it, and accepts no other
    // of that name. Retry later.
    bool was_in_use;
};
Registered g_functions[] = {{kLoad, false, false},
                            {kCheck, false, false},
                            {kDigest, false, false},
                            {kNormalized, false, false},
                            {kTurn, false, false}};

bool is_text_taken(const char* name, Udf_func_string function, Udf_func_init init) noexcept {
    return mysql_service_udf_registration->udf_register(name, STRING_RESULT,
                                                        reinterpret_cast<Udf_func_any>(function),
                                                        init, text_deinit) == 0;
}

bool is_taken(const char* name) noexcept {
    if (name == kLoad) {
        return mysql_service_udf_registration_aggregate->udf_register(
                   name, STRING_RESULT, reinterpret_cast<Udf_func_any>(load_result), load_init,
                   load_deinit, load_add, load_clear) == 0;
    }
    if (name == kTurn) {
        return mysql_service_udf_registration->udf_register(
                   name, INT_RESULT, reinterpret_cast<Udf_func_any>(turn), turn_init, nullptr) == 0;
    }
    if (name == kCheck) {
        return is_text_taken(name, check, check_init);
    }
    return is_text_taken(name, name == kDigest ? digest : normalized, pattern_init);
}

} // namespace

void open_rewrite_functions(const tacho_embed* recorder) noexcept {
    {
        const Guard guard;
        g_open = recorder;
    }
    for (Registered& function : g_functions) {
        function.there = is_taken(function.name);
        if (!function.there && function.was_in_use) {
            log(kWarning,
                "the function %s was not registered anew: a statement has used the former one "
                "since before the recorder was uninstalled. If rules that rewrite cannot be "
                "loaded, uninstall and install the recorder again when that has ended",
                function.name);
        } else if (!function.there) {
            log(kWarning,
                "the server does not take the function %s, it may have another one of that name: "
                "rules that rewrite cannot be loaded",
                function.name);
        }
    }
}

void close_rewrite_functions() noexcept {
    {
        const Guard guard;
        g_open = nullptr;
    }
    for (Registered& function : g_functions) {
        int was_present = 0;
        if (function.there || function.was_in_use) {
            // The server removes one that is in use when it is no longer used.
            const bool gone =
                mysql_service_udf_registration->udf_unregister(function.name, &was_present) == 0;
            function.was_in_use = !gone && was_present != 0;
            function.there = false;
        }
    }
}

} // namespace tacho
