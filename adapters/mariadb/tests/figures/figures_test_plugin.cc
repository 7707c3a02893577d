// Zone: outside (a test plugin; it never ships)
// SPDX-License-Identifier: GPL-2.0-only
//
// An audit plugin that writes one line per general event to the file named by the environment
// variable TACHO_FIGURES_LOG: tab-separated, the texts in hexadecimal.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "../../../common/server_compat.h"
#include "../../figures.h"
#include "../../figures_read.h"
#include "../../sql_commands.h"

namespace {

int g_log = -1;

uint64_t monotonic_ns() noexcept {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

// Whole lines in one write(2) to an O_APPEND file: they never mix.
void write_line(const char* line, size_t bytes) noexcept {
    if (write(g_log, line, bytes) != static_cast<ssize_t>(bytes)) {
        abort();
    }
}

size_t append_hex(char* to, const char* from, size_t bytes) noexcept {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes; i++) {
        to[2 * i] = digits[static_cast<unsigned char>(from[i]) >> 4];
        to[2 * i + 1] = digits[static_cast<unsigned char>(from[i]) & 15];
    }
    return 2 * bytes;
}

void notify(MYSQL_THD thd, unsigned int event_class, const void* event) {
    if (event_class != MYSQL_AUDIT_GENERAL_CLASS) {
        return;
    }
    const uint64_t now_ns = monotonic_ns();
    const auto* general = static_cast<const mysql_event_general*>(event);
    const int sqlcom = thd == nullptr ? -1 : thd_sql_command(thd);
    const bool is_bulk = general->general_command != nullptr &&
                         strcmp(general->general_command, "Bulk_execute") == 0;
    tacho::Figures figures;
    tacho::figures_read(general->event_subclass == MYSQL_AUDIT_GENERAL_STATUS ? thd : nullptr,
                        sqlcom, is_bulk ? tacho::kFiguresOfBulk : tacho::kFiguresAll, now_ns / 1000,
                        &figures);
    const uint32_t present =
        figures.present | (tacho::figures_nested(thd) ? tacho::kFigureNested : 0);
    static thread_local char line[64 * 1024];
    int used = snprintf(
        line, 4096, "%u\t%lu\t%llu\t%d\t%.*s\t%d\t%s\t%u\t%llu\t%llu\t%llu\t%llu\t%llu\t%u\t%.5s\t",
        general->event_subclass, general->general_thread_id,
        static_cast<unsigned long long>(general->query_id), general->general_error_code,
        general->event_subclass == MYSQL_AUDIT_GENERAL_ERROR
            ? 0
            : static_cast<int>(general->general_command_length),
        general->general_command == nullptr ? "" : general->general_command, sqlcom,
        tacho::sql_command_name(sqlcom), present,
        static_cast<unsigned long long>(figures.rows_sent),
        static_cast<unsigned long long>(figures.rows_examined),
        static_cast<unsigned long long>(figures.rows_affected),
        static_cast<unsigned long long>(figures.query_time_us),
        static_cast<unsigned long long>(figures.lock_time_us), figures.errno_,
        figures.sqlstate[0] == '\0' ? "" : figures.sqlstate);
    size_t bytes = static_cast<size_t>(used);
    size_t text_bytes = general->general_query_length;
    if (text_bytes > 20000) {
        text_bytes = 20000;
    }
    if (general->general_query != nullptr) {
        bytes += append_hex(line + bytes, general->general_query, text_bytes);
    }
    line[bytes++] = '\n';
    write_line(line, bytes);
}

int init(void*) {
    g_log = open(getenv("TACHO_FIGURES_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (g_log < 0) {
        return 1;
    }
    const char* repeat = getenv("TACHO_FIGURES_CALIBRATIONS");
    char why[1024] = "";
    bool complete = tacho::sql_commands_load(why, sizeof(why));
    char line[2048];
    int used = snprintf(line, sizeof(line), "# commands\t%d\t%d\t%s\n", complete ? 1 : 0,
                        tacho::sql_command_count(), why);
    write_line(line, static_cast<size_t>(used));
    complete = true;
    for (int i = repeat == nullptr ? 1 : atoi(repeat); i > 0; i--) {
        if (!tacho::figures_calibrate(why, sizeof(why))) {
            complete = false;
            break;
        }
    }
    used = snprintf(line, sizeof(line), "# calibrated\t%d\t%u\t%s\n", complete ? 1 : 0,
                    tacho::figures_available(), why);
    write_line(line, static_cast<size_t>(used));
    for (int i = 0; i <= tacho::sql_command_count(); i++) {
        used = snprintf(line, sizeof(line), "# command\t%d\t%s\n", i, tacho::sql_command_name(i));
        write_line(line, static_cast<size_t>(used));
    }
    return 0;
}

int deinit(void*) {
    return close(g_log);
}

st_mysql_audit g_audit = {
    MYSQL_AUDIT_INTERFACE_VERSION, nullptr, notify, {MYSQL_AUDIT_GENERAL_CLASSMASK}};

} // namespace

maria_declare_plugin(figures_test){
    MYSQL_AUDIT_PLUGIN,
    &g_audit,
    "figures_test",
    "Tachograph",
    "Prints the figures of statements",
    PLUGIN_LICENSE_GPL,
    init,
    deinit,
    0x0100,
    nullptr,
    nullptr,
    "1.0",
    MariaDB_PLUGIN_MATURITY_EXPERIMENTAL,
} maria_declare_plugin_end;
