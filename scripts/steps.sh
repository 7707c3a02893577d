#!/usr/bin/env bash
# The steps of make test and make check-deep. Each is run, whatever the result of the others, so
# that one run reports everything. The output of each is in build/steps/NAME.log, or in the
# directory TACHO_STEPS.
#
#   scripts/steps.sh begin               a new run: an empty list
#   scripts/steps.sh run NAME COMMAND    runs a command as the step NAME; TACHO_VERBOSE=1 shows its
#                                        output, too
#   scripts/steps.sh show                prints the list, and why steps failed: what each test that
#                                        failed said, or the end of the output if there is no such
#                                        test; the exit code is 1 if steps failed
set -euo pipefail
cd "$(dirname "$0")/.."
directory=${TACHO_STEPS:-build/steps}
list=$directory/list
# Enough for the last error of a compiler or of a script.
tail_lines=60

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

# What the tests said that failed, of a log of cargo. With --no-fail-fast other programs' results
# stand behind it, often more of them than a reader of the end of a long output gets to see.
failures() {
    awk '/^---- .* (stdout|stderr) ----$/ { inside = 1 }
         /^failures:$/ { inside = 0 }
         inside && /^stack backtrace:$/ { backtrace = 1 }
         /^$/ { backtrace = 0 }
         inside && !backtrace
         /^test .* FAILED$/ || /^error: test failed/' "$1"
}

show() {
    local name failed said
    failed=$(sed -n 's/^FAILED.* //p' "$list")
    printf '\n== steps\n'
    cat "$list"
    for name in $failed; do
        said=$(failures "$directory/$name.log" | tail -n "$tail_lines")
        printf '\n== why it failed, from %s/%s.log\n' "$directory" "$name"
        if [ -n "$said" ]; then
            echo "$said"
        else
            tail -n "$tail_lines" "$directory/$name.log"
        fi
    done
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
