#!/usr/bin/env bash
# Tests in MariaDB's own test framework, Debian's mariadb-test: the suite in adapters/mariadb/mtr, and
# server_audit's own tests on a server that has both plugins.
#
#   scripts/mtr.sh [mariadb | mariadb-11.8]     all of it
#   scripts/mtr.sh --record     write the results of the suite anew, to be read before they are committed
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$PWD

release=mariadb
root=
mtr=/usr/share/mysql/mysql-test
case "${1:-}" in
    "" | mariadb | --record) ;;
    mariadb-11.8)
        release=mariadb-11.8
        root=$(scripts/setup-mariadb-11.8.sh)
        mtr=$root/usr/share/mariadb/mariadb-test
        ;;
    *)
        echo "usage: scripts/mtr.sh [mariadb | mariadb-11.8 | --record]" >&2
        exit 2
        ;;
esac
plugins=$root/usr/lib/mysql/plugin
[ -x "$mtr/mariadb-test-run.pl" ] || {
    echo "mtr.sh: mariadb-test is not installed (scripts/setup.sh test installs it)" >&2
    exit 1
}
work=$tree/build/mtr/$release
rm -rf "$work"
mkdir -p "$work/plugins"
for library in "$plugins"/*.so; do
    ln -s "$library" "$work/plugins/"
done
cp "build/$release/tacho.so" "$work/plugins/"
export TACHO_PLUGIN_DIR=$work/plugins

# The framework takes a dash in the path of a suite for the end of its name: this has none.
links=$(mktemp -d /tmp/tacho_mtr.XXXXXX)
trap 'rm -rf "$links"' EXIT
suite=$links/tacho
ln -s "$tree/adapters/mariadb/mtr" "$suite"

# The framework creates its sockets in a short path if this one is too long.
run() {
    local options=(--vardir="$work/var" --force --max-test-fail=0 --parallel=1 --force-restart)
    if [ "$(id -u)" -eq 0 ]; then
        options+=(--mysqld=--user=root)
    fi
    (cd "$mtr" && perl mariadb-test-run.pl "${options[@]}" "$@")
}

our_suite() {
    run --suite="$suite" "$@"
}

server_audit_suite() {
    local tests=() test
    for test in "$mtr"/suite/plugins/t/server_audit*.test; do
        tests+=("$(basename "$test" .test)")
    done
    # Beside the data directory, which is new for every test.
    run --suite=plugins --mysqld=--plugin-dir="$TACHO_PLUGIN_DIR" --mysqld=--plugin-load-add=tacho \
        --mysqld=--tacho-directory="$work/log" --mysqld=--tacho-signing-key-file="$work/log.key" \
        --mysqld=--tacho-tables=ON --mysqld=--tacho-arena-bytes=8M "${tests[@]}"
    "${TACHO_BIN:-build/bin}/tacho" convert --format csv --output "$work/log.csv" "$work/log"
    scripts/mtr-server-audit.py "$work/log.csv" \
        "$mtr"/suite/plugins/r/server_audit{,_query_id}.result
}

if [ "${1:-}" = --record ]; then
    # The framework needs the names of the results to write.
    names=()
    for test in adapters/mariadb/mtr/t/*.test; do
        names+=("$(basename "$test" .test)")
    done
    our_suite --record "${names[@]}"
else
    our_suite
    server_audit_suite
fi
