// Zone: outside. SPDX-License-Identifier: GPL-2.0-only
//
// An authentication plugin for the tests (tests/mariadb/proxies.rs): accepts every login, with the
// identity in the account's own string. With IDENTIFIED VIA map_auth AS 'boss|jane@EXAMPLE' the
// client is authenticated as `boss`, and its external user is `jane@EXAMPLE`. Similar plugins of
// Debian's server (auth_pam, auth_gssapi) need a set-up of the machine.
#include <mysql/plugin_auth.h>
#include <string.h>

static void copy(char* to, const char* from, size_t length) {
    length = length < MYSQL_USERNAME_LENGTH ? length : MYSQL_USERNAME_LENGTH;
    memcpy(to, from, length);
    to[length] = '\0';
}

static int authenticate(MYSQL_PLUGIN_VIO* vio, MYSQL_SERVER_AUTH_INFO* info) {
    unsigned char* packet;
    if (info->user_name == NULL && vio->read_packet(vio, &packet) < 0) {
        return CR_ERROR;
    }
    const char* end = info->auth_string + info->auth_string_length;
    const char* bar = memchr(info->auth_string, '|', info->auth_string_length);
    if (bar == NULL) {
        return CR_ERROR;
    }
    if (bar != info->auth_string) {
        copy(info->authenticated_as, info->auth_string, (size_t)(bar - info->auth_string));
    }
    copy(info->external_user, bar + 1, (size_t)(end - bar - 1));
    info->password_used = PASSWORD_USED_NO_MENTION;
    return CR_OK;
}

static struct st_mysql_auth handler = {
    .interface_version = MYSQL_AUTHENTICATION_INTERFACE_VERSION,
    .authenticate_user = authenticate,
};

maria_declare_plugin(map_auth){
    MYSQL_AUTHENTICATION_PLUGIN,
    &handler,
    "map_auth",
    "Tachograph's tests",
    "Accepts every login, with another identity",
    PLUGIN_LICENSE_GPL,
    NULL,
    NULL,
    0x0100,
    NULL,
    NULL,
    "1.0",
    MariaDB_PLUGIN_MATURITY_STABLE,
} maria_declare_plugin_end;
