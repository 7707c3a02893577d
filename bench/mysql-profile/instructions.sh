#!/usr/bin/env bash
# What a point select takes in the thread of its session of MySQL 9.7, by callgrind, inside of the
# server's do_command; see README.md. Needs valgrind, sysbench and `make build SERVER=mysql-9.7`.
set -euo pipefail
cd "$(dirname "$0")/../.."

server=${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/mysql-9.7
events=1000
for program in valgrind callgrind_control callgrind_annotate sysbench mysqladmin; do
    command -v "$program" >/dev/null || {
        echo "instructions.sh: needs $program" >&2
        exit 1
    }
done
[ -r build/mysql-9.7/component_tacho.so ] || {
    echo "instructions.sh: needs the component: make build SERVER=mysql-9.7" >&2
    exit 1
}

mkdir -p build/bench
work=$(mktemp -d "$PWD/build/bench/mysql-instructions-XXXXXX")
pid=
stop() {
    if [ -n "$pid" ]; then
        kill "$pid"
        wait "$pid" || true
        pid=
    fi
}
trap 'stop; rm -rf "$work"' EXIT

mkdir "$work/plugin" "$work/log"
cp build/mysql-9.7/component_tacho.so "$server/usr/lib/mysql/plugin/component_reference_cache.so" "$work/plugin"
options=(--no-defaults --user="$(id -un)" "--datadir=$work/data" "--basedir=$server/usr" --secure-file-priv=)
"$server/usr/sbin/mysqld" "${options[@]}" --initialize-insecure "--log-error=$work/initialize.log"
sql() { mysql --no-defaults --user=root "--socket=$work/s" --execute="$1"; }
point_selects() {
    LUA_PATH="/usr/share/sysbench/?.lua" sysbench --db-driver=mysql "--mysql-socket=$work/s" --mysql-user=root \
        --mysql-db=tacho_bench --tables=1 --table-size=1000 --db-ps-mode=disable oltp_point_select "$@" \
        >"$work/sysbench"
}

# count NAME [VALUE of tacho.traces]
count() {
    local out=$work/$1.callgrind total
    valgrind --tool=callgrind "--callgrind-out-file=$out" --collect-atstart=no '--toggle-collect=do_command(THD*)' \
        "$server/usr/sbin/mysqld" "${options[@]}" "--plugin-dir=$work/plugin" "--socket=$work/s" \
        "--pid-file=$work/pid" "--log-error=$work/error.log" --skip-networking --mysqlx=OFF \
        "--loose-tacho.directory=$work/log" "--loose-tacho.arena-directory=$work" >"$work/valgrind" 2>&1 &
    pid=$!
    until mysqladmin --no-defaults --user=root "--socket=$work/s" --silent ping >/dev/null 2>&1; do
        kill -0 "$pid" || {
            tail "$work/error.log" "$work/valgrind" >&2
            exit 1
        }
        sleep 0.5
    done
    sql "CREATE DATABASE IF NOT EXISTS tacho_bench"
    [ "$1" != none ] || point_selects prepare
    [ "$1" = none ] || sql "INSTALL COMPONENT 'file://component_tacho'; SET GLOBAL tacho.traces = $2"
    # What only the first ones take does not count.
    point_selects --events=300 --time=0 run
    callgrind_control --zero "$pid" >"$work/control" 2>&1
    point_selects "--events=$events" --time=0 run
    callgrind_control --dump "$pid" >"$work/control" 2>&1
    total=$(callgrind_annotate "$out.1" | sed -n 's/^ *\([0-9,]*\) .*PROGRAM TOTALS.*/\1/p' | tr -d ,)
    echo "$1: $((total / events)) instructions"
    [ "$1" = none ] || sql "UNINSTALL COMPONENT 'file://component_tacho'"
    stop
}

count none
for traces in OFF CHANGES ON; do
    count "$traces" "$traces"
done
