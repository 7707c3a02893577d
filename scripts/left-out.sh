#!/usr/bin/env bash
# Lists the tests that did not run because this machine lacks something, in build/left-out or the
# file TACHO_LEFT_OUT: nothing is skipped without a line at the end of the run.
#
#   scripts/left-out.sh begin       a new run: an empty list
#   scripts/left-out.sh add TEXT    what is left out, and why
#   scripts/left-out.sh show        prints the list
set -euo pipefail
list=${TACHO_LEFT_OUT:-$(dirname "$0")/../build/left-out}

case ${1:-} in
    begin) rm -f "$list" ;;
    add)
        mkdir -p "${list%/*}"
        echo "$2" >>"$list"
        echo "LEFT OUT: $2" >&2
        ;;
    show)
        if [ -s "$list" ]; then
            echo "NOT TESTED on this machine:"
            sort -u "$list" | sed 's/^/  /'
        else
            echo "Nothing was left out."
        fi
        ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
