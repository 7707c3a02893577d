// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
#include "recorder.h"

#include "../common/message.h"
#include "../common/settings.h"
#include "../common/text_settings.h"
#include "adapter.h"
#include "charset.h"
#include "rewrite.h"
#include "rules.h"
#include "sql_commands.h"

#include <climits>
#include <cstring>

#include <dlfcn.h>

namespace tacho {

tacho_embed* g_recorder = nullptr;

namespace {

// Binary: for each figure, the server compares it by its collation with the names that it knows,
// and that of utf8mb4 takes most of the time of recording a statement.
my_h_string make_string(const char* text) noexcept {
    my_h_string made = nullptr;
    if (mysql_service_mysql_string_converter->convert_from_buffer(&made, text, strlen(text),
                                                                  "binary") != 0) {
        return nullptr;
    }
    return made;
}

bool absolute_setting(int32_t number, char* path) noexcept {
    const char* given = variable_text(number);
    path[0] = '\0';
    if (given[0] != '\0' && !absolute_path(given, path, PATH_MAX)) {
        log(kError, "%s: the path is too long", kSettings[number].full_name);
        return false;
    }
    show_text(number, path);
    return true;
}

} // namespace

bool start_recorder(const char* server) noexcept {
    char directory[PATH_MAX];
    char signing_key_file[PATH_MAX];
    if (!absolute_setting(TACHO_SETTING_DIRECTORY, directory) ||
        !absolute_setting(TACHO_SETTING_SIGNING_KEY_FILE, signing_key_file)) {
        return false;
    }
    const tacho_embed_config config = {directory,
                                       variable_text(TACHO_SETTING_ARENA_DIRECTORY),
                                       signing_key_file,
                                       server,
                                       variable_number(TACHO_SETTING_ARENA_BYTES),
                                       nullptr,
                                       variable_number(TACHO_SETTING_TABLES) != 0,
                                       false,
                                       variable_number(TACHO_SETTING_WRITER) ==
                                           TACHO_WRITER_EXTERNAL,
                                       true};
    char error[1024] = "";
    tacho_embed* recorder = tacho_embed_start(&config, error, sizeof(error));
    if (recorder == nullptr) {
        log(kError, "recording cannot start: %s", error);
        return false;
    }
    sql_commands_load(recorder);
    load_rules();
    find_charset();
    load_rewrite();
    apply_texts(recorder);
    // Before the first line: this is done by the server itself.
    (void)tacho_embed_rewrite_restore(recorder);
    apply_variables(recorder);
    log(kNote, "recording to %s", directory);
    g_recorder = recorder;
    return true;
}

void stop_recorder() noexcept {
    tacho_embed* recorder = g_recorder;
    g_recorder = nullptr;
    if (recorder != nullptr) {
        tacho_embed_stop(recorder, kStopTimeoutMs);
    }
}

bool keep_library() noexcept {
    Dl_info info;
    return dladdr(&g_recorder, &info) != 0 &&
           dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

void make_figure_names() noexcept {
    g_figure_names = {make_string("query_time"), make_string("rows_sent"),
                      make_string("rows_examined")};
    if (g_figure_names.query_time == nullptr || g_figure_names.rows_sent == nullptr ||
        g_figure_names.rows_examined == nullptr) {
        log(kWarning, "%s", "some statement figures are not available on this server");
    }
}

void free_figure_names() noexcept {
    my_h_string* const all[] = {&g_figure_names.query_time, &g_figure_names.rows_sent,
                                &g_figure_names.rows_examined};
    for (my_h_string* name : all) {
        if (*name != nullptr) {
            mysql_service_mysql_string_factory->destroy(*name);
            *name = nullptr;
        }
    }
}

} // namespace tacho
