#!/usr/bin/env bash
# Instructions of a point select in its session's thread of MySQL 9.7, by callgrind, within the
# server's do_command; see README.md. Needs valgrind, sysbench and `make build SERVER=mysql-9.7`.
set -euo pipefail
cd "$(dirname "$0")/../.."

# shellcheck source=bench/mysql-profile/server.sh
. bench/mysql-profile/server.sh
needs valgrind callgrind_control callgrind_annotate
events=1000

prepare_server
point_selects() {
    "${load[@]}" --table-size=1000 --db-ps-mode=disable oltp_point_select "$@" >"$work/sysbench"
}

# count NAME [VALUE of tacho.traces]
count() {
    local out=$work/$1.callgrind total
    prefix=(valgrind --tool=callgrind "--callgrind-out-file=$out" --collect-atstart=no
        '--toggle-collect=do_command(THD*)')
    start_server
    sql "CREATE DATABASE IF NOT EXISTS tacho_bench"
    [ "$1" != none ] || point_selects prepare
    [ "$1" = none ] || sql "INSTALL COMPONENT 'file://component_tacho'; SET GLOBAL tacho.traces = $2"
    # The additional instructions of the first statements do not count.
    point_selects --events=300 --time=0 run
    callgrind_control --zero "$pid" >"$work/control" 2>&1
    point_selects "--events=$events" --time=0 run
    callgrind_control --dump "$pid" >"$work/control" 2>&1
    total=$(callgrind_annotate "$out.1" | sed -n 's/^ *\([0-9,]*\) .*PROGRAM TOTALS.*/\1/p' | tr -d ,)
    echo "$1: $((total / events)) instructions"
    [ "$1" = none ] || sql "UNINSTALL COMPONENT 'file://component_tacho'"
    stop_server
}

count none
for traces in OFF CHANGES ON; do
    count "$traces" "$traces"
done
