#!/usr/bin/env bash
# The steps of make test: each is run, whatever the result of those before it, so that one run
# reports everything that is wrong. The results and times are in build/steps.
#
#   scripts/steps.sh begin              a new run: an empty list
#   scripts/steps.sh run NAME COMMAND   runs a command as the step NAME
#   scripts/steps.sh show               prints the list; the exit code is 1 if a step failed
set -euo pipefail
list=$(dirname "$0")/../build/steps

case ${1:-} in
    begin)
        mkdir -p "${list%/*}"
        : >"$list"
        ;;
    run)
        name=$2
        shift 2
        begin=$SECONDS
        printf '\n== %s: %s\n' "$name" "$*"
        result=passed
        "$@" || result=FAILED
        printf '%s  %4d s  %s\n' "$result" $((SECONDS - begin)) "$name" | tee -a "$list"
        ;;
    show)
        printf '\n== steps\n'
        cat "$list"
        ! grep -q '^FAILED' "$list"
        ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
