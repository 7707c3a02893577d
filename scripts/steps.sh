#!/usr/bin/env bash
# The steps of make test and make check-deep. Each is run, whatever the result of the others, so
# that one run reports everything. The output of each is in build/steps/NAME.log, or in the
# directory TACHO_STEPS.
#
#   scripts/steps.sh begin               a new run: an empty list
#   scripts/steps.sh run NAME COMMAND    runs a command as the step NAME; TACHO_VERBOSE=1 shows its
#                                        output, too
#   scripts/steps.sh show                prints the list, and the ends of the output of steps that
#                                        failed; the exit code is 1 if there are some
set -euo pipefail
cd "$(dirname "$0")/.."
directory=${TACHO_STEPS:-build/steps}
list=$directory/list
# Enough for the failures of a test program, which are at its end.
tail_lines=200

run() {
    # A step does not take part in make's number of jobs: cargo would look for its descriptors.
    unset MAKEFLAGS MFLAGS MAKELEVEL
    local name=$1 log=$directory/$1.log begin=$SECONDS result=passed processor_s line
    shift
    echo "          $name: $*"
    if [ "${TACHO_VERBOSE:-}" = 1 ]; then
        "$@" 2>&1 </dev/null | tee "$log" || result=FAILED
    else
        "$@" >"$log" 2>&1 </dev/null || result=FAILED
    fi
    # Of the processes that have ended, in the second line; a subshell would have none.
    times >"$directory/$name.times"
    processor_s=$(awk -F '[ms ]+' 'NR == 2 { print int($1 * 60 + $2 + $3 * 60 + $4) }' \
        "$directory/$name.times")
    line=$(printf '%s  %4d s, %4d s of processor time  %s' \
        "$result" $((SECONDS - begin)) "$processor_s" "$name")
    echo "$line"
    # One short write: two steps may end at the same moment.
    echo "$line" >>"$list"
}

show() {
    local name failed
    failed=$(sed -n 's/^FAILED.* //p' "$list")
    for name in $failed; do
        printf '\n== the end of %s/%s.log\n' "$directory" "$name"
        tail -n "$tail_lines" "$directory/$name.log"
    done
    printf '\n== steps\n'
    cat "$list"
    [ -z "$failed" ]
}

case ${1:-} in
    begin)
        mkdir -p "$directory"
        : >"$list"
        ;;
    run | show) "$@" ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
