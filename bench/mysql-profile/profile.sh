#!/usr/bin/env bash
# Where MySQL 9.7 spends its processor time with the component and without; see README.md. Needs
# perf, sysbench and `make build SERVER=mysql-9.7`.
set -euo pipefail
cd "$(dirname "$0")/../.."

connections=${CONNECTIONS:-512}
seconds=${SECONDS_EACH:-20}
# shellcheck source=bench/mysql-profile/server.sh
. bench/mysql-profile/server.sh
needs perf

# perf opens files for each thread of the server.
ulimit -n "$(ulimit -Hn)"
prepare_server
start_server
status() { sql "SHOW GLOBAL STATUS LIKE '$1'" | cut -f2; }
sql "CREATE DATABASE tacho_bench"
load+=(--table-size=10000)
"${load[@]}" oltp_point_select prepare >"$work/prepare"

# The profile of perf: per cent of the server's processor time.
report() {
    perf report --input "$work/perf" --stdio --call-graph none --field-separator "|" "$@" \
        2>"$work/perf.log" | grep -v '^#' | grep . >"$work/report"
}
show() { grep -E -m 12 "$1" "$work/report" || echo "   no sample"; }
profile() {
    local title=$1 name=$2 threads=$3 sessions=$4
    "${load[@]}" "$name" "--threads=$threads" --time=0 run >"$work/sysbench" 2>&1 &
    local running=$! before
    # sysbench begins when all sessions are there.
    until [ "$(status Threads_connected)" -ge "$sessions" ]; do sleep 0.5; done
    sleep 3
    before=$(status Questions)
    # It looks at each thread of the server first, which may take longer than the profile.
    perf record --event cpu-clock --freq 997 --call-graph fp --pid "$pid" --output "$work/perf" -- \
        sleep "$seconds" >"$work/perf.log" 2>&1 || { cat "$work/perf.log" >&2 && exit 1; }
    kill "$running"
    wait "$running" || true
    echo "== $title ($(($(status Questions) - before)) statements while perf looked)"
    echo "-- share of the processor time by kind of thread and library"
    report --no-children --sort comm,dso
    show .
    report --children --sort symbol
    echo "-- functions of the server about plugins (they hold LOCK_plugin, if anything does), with what they call"
    show '[Pp]lugin'
    echo "-- what recording has the server do, with what it calls"
    show 'event_tracking_[a-z_]*_notify|Event_reference_caching_cache::|compute_digest_text|clock_gettime'
}

for with in without with; do
    if [ "$with" = with ]; then
        sql "INSTALL COMPONENT 'file://component_tacho'"
    fi
    profile "point selects, $connections connections, $with the component" oltp_point_select "$connections" "$connections"
    profile "log in, point select, log out, 32 at a time, $with the component" "$PWD/crates/bench/lua/connect.lua" 32 2
done
