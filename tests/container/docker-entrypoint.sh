#!/bin/bash
# The entrypoint of the stand-ins of scripts/test-container.sh for the official images of MariaDB
# and MySQL. It runs the server in the ways that theirs do, in the same order: it asks for the
# options as root, makes a data directory as the server's user, runs the files in
# /docker-entrypoint-initdb.d with a server for that, and becomes the server. It knows none of
# their variables.
set -euo pipefail

say() { printf '[Entrypoint]: %s\n' "$*"; }
datadir=/var/lib/mysql socket=/run/mysqld/mysqld.sock

# Theirs stop at an option that the server does not know.
"$@" --verbose --help >/tmp/help 2>/tmp/errors || {
    say "the configuration is wrong: $(cat /tmp/errors)"
    exit 1
}
if [ "$(id -u)" = 0 ]; then
    rm -f /tmp/help /tmp/errors
    find "$datadir" "${socket%/*}" \! -user mysql -exec chown mysql: {} +
    exec setpriv --reuid mysql --regid mysql --init-groups "$0" "$@"
fi

if [ "$1" = mariadbd ]; then client=mariadb; else client=mysql; fi
sql() { "$client" --protocol=socket -uroot --socket="$socket" "$@"; }

start_for_init_files() {
    if [ "$1" = mysqld ]; then
        "$@" --daemonize --skip-networking --default-time-zone=SYSTEM --socket="$socket"
    else
        "$@" --skip-networking --default-time-zone=SYSTEM --socket="$socket" --expire-logs-days=0 &
        server=$!
    fi
    for _ in $(seq 300); do
        ! sql -e 'SELECT 1' >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    say "the server for the files does not start"
    exit 1
}

if [ ! -d "$datadir/mysql" ]; then
    say "making the data directory"
    if [ "$1" = mysqld ]; then
        "$@" --initialize-insecure --default-time-zone=SYSTEM
    else
        mariadb-install-db --datadir="$datadir" --rpm --auth-root-authentication-method=normal \
            "${@:2}" --skip-test-db --old-mode=UTF8_IS_UTF8MB3 --default-time-zone=SYSTEM \
            --enforce-storage-engine= --skip-log-bin --expire-logs-days=0
    fi
    start_for_init_files "$@"
    for file in /docker-entrypoint-initdb.d/*.sql; do
        [ -e "$file" ] || continue
        say "running $file"
        sql <"$file"
    done
    say "stopping the server for the files"
    if [ "$1" = mysqld ]; then
        mysqladmin --protocol=socket -uroot --socket="$socket" shutdown
    else
        kill "$server"
        wait "$server"
    fi
fi
exec "$@"
