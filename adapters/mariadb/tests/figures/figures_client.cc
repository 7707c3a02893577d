// Zone: outside (part of a test)
// SPDX-License-Identifier: GPL-2.0-only
//
// figures_client SOCKET: one connection; each line of standard input is a letter, a space and a
// statement:
//   Q  text protocol, all results are read; the text may hold several statements
//   P  prepared over the binary protocol, executed twice
//   C  the same with a read-only cursor, executed once
//   B  prepared once, executed in bulk with the three integers 101, 102, 103
//   U  COM_INIT_DB, the text is the database
//   X  executes a statement id that the server does not know
// SQL errors are part of the tests: they are not reported. Prints the connection id first.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <mysql.h>

namespace {

void drain(MYSQL* mysql) {
    do {
        MYSQL_RES* result = mysql_store_result(mysql);
        if (result != nullptr) {
            mysql_free_result(result);
        }
    } while (mysql_next_result(mysql) == 0);
}

void drain_statement(MYSQL_STMT* statement) {
    do {
        if (mysql_stmt_field_count(statement) == 0) {
            continue;
        }
        while (mysql_stmt_fetch(statement) != MYSQL_NO_DATA && mysql_stmt_errno(statement) == 0) {
        }
        mysql_stmt_free_result(statement);
    } while (mysql_stmt_next_result(statement) == 0);
}

void run_prepared(MYSQL* mysql, char kind, const char* text) {
    MYSQL_STMT* statement = mysql_stmt_init(mysql);
    int numbers[3] = {101, 102, 103};
    unsigned int rows = 3;
    MYSQL_BIND bind;
    memset(&bind, 0, sizeof(bind));
    bind.buffer_type = MYSQL_TYPE_LONG;
    bind.buffer = numbers;
    unsigned long cursor = CURSOR_TYPE_READ_ONLY;
    if (mysql_stmt_prepare(statement, text, strlen(text)) == 0) {
        if (kind == 'B') {
            mysql_stmt_attr_set(statement, STMT_ATTR_ARRAY_SIZE, &rows);
            mysql_stmt_bind_param(statement, &bind);
        } else if (kind == 'C') {
            mysql_stmt_attr_set(statement, STMT_ATTR_CURSOR_TYPE, &cursor);
        }
        for (int i = kind == 'P' ? 2 : 1; i > 0; i--) {
            if (mysql_stmt_execute(statement) == 0) {
                drain_statement(statement);
            }
        }
    }
    mysql_stmt_close(statement);
}

void run_line(MYSQL* mysql, char kind, const char* text) {
    if (kind == 'Q') {
        if (mysql_real_query(mysql, text, strlen(text)) == 0) {
            drain(mysql);
        }
    } else if (kind == 'U') {
        mysql_select_db(mysql, text);
    } else if (kind == 'X') {
        MYSQL_STMT* statement = mysql_stmt_init(mysql);
        mysql_stmt_prepare(statement, "SELECT 1", 8);
        statement->stmt_id += 1000;
        mysql_stmt_execute(statement);
        mysql_stmt_close(statement);
    } else {
        run_prepared(mysql, kind, text);
    }
}

} // namespace

int main(int argc, char** argv) {
    MYSQL* mysql = mysql_init(nullptr);
    if (argc != 2 || mysql_real_connect(mysql, nullptr, "root", "", nullptr, 0, argv[1],
                                        CLIENT_MULTI_STATEMENTS | CLIENT_LOCAL_FILES) == nullptr) {
        fprintf(stderr, "cannot connect: %s\n", mysql_error(mysql));
        return 1;
    }
    printf("%lu\n", mysql_thread_id(mysql));
    fflush(stdout);
    static char line[64 * 1024];
    while (fgets(line, sizeof(line), stdin) != nullptr) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0') {
            run_line(mysql, line[0], line + 2);
        }
    }
    mysql_close(mysql);
    return 0;
}
