// Zone: hot (constants and types only; no code runs here)
// SPDX-License-Identifier: GPL-2.0-only
//
// The only place that distinguishes server releases. Every condition on MYSQL_VERSION_ID or
// MARIADB_BASE_VERSION, and every name that is not part of the server's published plugin API, is in
// this header; code elsewhere tests for features, never for a release.
#ifndef TACHO_COMMON_SERVER_COMPAT_H
#define TACHO_COMMON_SERVER_COMPAT_H

#ifdef TACHO_SERVER_MYSQL

#include <mysql_version.h>

#ifdef MARIADB_BASE_VERSION
#error "these are the headers of MariaDB"
#endif
#if MYSQL_VERSION_ID < 80300

// The last releases without event services: the recorder is a plugin there. It is compiled against
// headers of 9.7, which still has that plugin interface; mysql_version.h is the server's own.
#define TACHO_MYSQL_PLUGIN 1
#define MYSQL_DYNAMIC_PLUGIN 1
#if MYSQL_VERSION_ID < 80033
#error "MySQL 8.0.33 is the oldest release that the plugin is tested with"
#endif

#include <mysql/plugin.h>
#include <mysql/plugin_audit.h>
#include <mysql/strings/m_ctype.h>

// Requirements of 8.0 for a plugin (include/mysql/plugin.h and plugin_audit.h there).
static_assert(MYSQL_PLUGIN_INTERFACE_VERSION == 0x010B && MYSQL_AUDIT_INTERFACE_VERSION == 0x0401,
              "the interface of 8.0");
static_assert(MYSQL_AUDIT_CLASS_MASK_SIZE == 13, "its classes of events");
static_assert(sizeof(st_mysql_plugin) == 112 && sizeof(st_mysql_audit) == 128, "its descriptors");

namespace tacho::symbols {

// Names that mysqld exports but no public header declares. They are looked up at run time.

// LEX_CSTRING sql_statement_names[SQLCOM_END + 1]: by the numbers in events. For a comparison.
constexpr char kSqlStatementNames[] = "sql_statement_names";
// char server_version[].
constexpr char kServerVersion[] = "server_version";

} // namespace tacho::symbols

namespace tacho::numbers {

// How many SQL commands 8.0 has (8.0.33), numbered from 0.
constexpr size_t kSqlCommandCount = 159;
// CREATE FUNCTION for a stored function: 8.0 has the name for it that 9.7 has for the other kind.
constexpr size_t kCreateStoredFunction = 90;

} // namespace tacho::numbers

namespace tacho {

// Whether an event says that a statement was parsed. On 8.0 this would slow every statement down,
// and the plugin has an event for statements that were not parsed.
constexpr bool kReportsParsed = false;

// Whether the storage engine, not the server, checks foreign keys: then no event names the child
// tables that a statement changes.
constexpr bool kEngineChecksForeignKeys = true;

} // namespace tacho

#elif MYSQL_VERSION_ID < 90700
#error "MySQL 9.7 is the oldest release that the component is tested with"
#else

namespace tacho {

constexpr bool kReportsParsed = true;
constexpr bool kEngineChecksForeignKeys = false;

} // namespace tacho

#endif

namespace tacho::symbols {

// const CHARSET_INFO* thd_charset(THD*): character set of the texts that a session sends. Without
// it, a line of 8.0 has no character set.
constexpr char kThdCharset[] = "_Z11thd_charsetP3THD";
// void my_message(uint number, const char* text, myf flags): an error with a text of the caller,
// which no service provides. Every release exports it for its plugins.
constexpr char kMyMessage[] = "_Z10my_messagejPKci";
// void* my_malloc(uint key, size_t bytes, myf flags): the allocator for an event's rewritten text,
// which the server frees by my_free.
constexpr char kMyMalloc[] = "_Z9my_mallocjmi";
// bool thd_is_strict_mode(const THD*): whether sql_mode has one of two bits. Used to find sql_mode
// in a session (adapters/mysql/sql_mode.cc).
constexpr char kIsStrictMode[] = "_Z18thd_is_strict_modePK3THD";

} // namespace tacho::symbols

#else // MariaDB

#include <my_global.h>

#include <mysql/plugin.h>
#include <mysql/plugin_audit.h>
#include <mysql_version.h>

#ifndef MARIADB_BASE_VERSION
#error "this adapter is for MariaDB; MySQL has one of its own"
#endif
#if MYSQL_VERSION_ID < 101100
#error "MariaDB 10.11 is the oldest release this adapter is tested with"
#endif

namespace tacho::symbols {

// Names that the mariadbd executable exports for its engines and plugins, in the mangled form
// (Itanium C++ ABI) because no public header declares them. They are looked up at run time, and any
// of them may be missing: then the figure that needs it is left out.

// THD* create_background_thd() and void destroy_background_thd(THD*), made for the
// background threads of storage engines.
constexpr char kCreateBackgroundThd[] = "_Z21create_background_thdv";
constexpr char kDestroyBackgroundThd[] = "_Z22destroy_background_thdP3THD";
// void* thd_attach_thd(THD*) and void thd_detach_thd(void*).
constexpr char kAttachThd[] = "_Z14thd_attach_thdP3THD";
constexpr char kDetachThd[] = "_Z14thd_detach_thdPv";

// void THD::set_sent_row_count(ulonglong), void THD::inc_sent_row_count(ulonglong).
constexpr char kSetSentRowCount[] = "_ZN3THD18set_sent_row_countEy";
constexpr char kIncSentRowCount[] = "_ZN3THD18inc_sent_row_countEy";
// void THD::set_examined_row_count(ulonglong), void THD::inc_examined_row_count(ulonglong).
constexpr char kSetExaminedRowCount[] = "_ZN3THD22set_examined_row_countEy";
constexpr char kIncExaminedRowCount[] = "_ZN3THD22inc_examined_row_countEy";
// void thd_storage_lock_wait(THD*, longlong): adds to THD::utime_after_lock.
constexpr char kStorageLockWait[] = "thd_storage_lock_wait";
// void THD::init_for_queries(): every new session calls it once, it starts the clock.
constexpr char kInitForQueries[] = "_ZN3THD16init_for_queriesEv";

// Diagnostics_area::Diagnostics_area(bool) and its setters.
constexpr char kDiagnosticsArea[] = "_ZN16Diagnostics_areaC1Eb";
constexpr char kResetDiagnostics[] = "_ZN16Diagnostics_area22reset_diagnostics_areaEv";
constexpr char kSetOkStatus[] = "_ZN16Diagnostics_area13set_ok_statusEyyPKc";
constexpr char kSetEofStatus[] = "_ZN16Diagnostics_area14set_eof_statusEP3THD";
constexpr char kSetErrorStatus[] =
    "_ZN16Diagnostics_area16set_error_statusEjPKcS1_RK27Sql_user_condition_identityPK13Sql_"
    "condition";

// sp_cache** Sp_handler_function::get_cache(THD*) const and the same for package bodies: where a
// session keeps the stored functions that it has loaded.
constexpr char kFunctionCache[] = "_ZNK19Sp_handler_function9get_cacheEP3THD";
constexpr char kPackageCache[] = "_ZNK23Sp_handler_package_body9get_cacheEP3THD";

// uint thd_get_error_number(const THD*) and uint thd_current_status(THD*): errno of the
// statement, unconditionally and only when it failed.
constexpr char kGetErrorNumber[] = "thd_get_error_number";
constexpr char kCurrentStatus[] = "thd_current_status";

// PSI_statement_info sql_statement_info[SQLCOM_END + 1], and the elements of SHOW STATUS LIKE
// 'Com_%', SHOW_VAR com_status_vars[], which end with a null name.
constexpr char kSqlStatementInfo[] = "sql_statement_info";
constexpr char kComStatusVars[] = "com_status_vars";

} // namespace tacho::symbols

#endif // TACHO_SERVER_MYSQL

#endif
