#!/usr/bin/env bash
# Runs the checks that take hours or special tools, and prints one line of result for each. Each is
# run, whatever the result of the others; the exit code is 1 if one failed or could not run.
#
#   scripts/check-deep.sh [CHECK...]    without: all
#
#   deny      licences, bans and sources of the third-party crates (cargo-deny)
#   miri      undefined behaviour in the arena (nightly toolchain with miri)
#   fuzz      the fuzzers (nightly toolchain, cargo-fuzz)
#   asan      the tests with AddressSanitizer in the server: asan-mysql-9.7 on that one
#   pauses    the tests with a writer that pauses
#   crash     100 kills and 200 installations under load
#   deb       the packages, in clean Debian systems (root): deb-mysql-9.7, deb-mysql-8.0
#
# The output of each is in build/deep/CHECK.log.
set -euo pipefail
cd "$(dirname "$0")/.."

all=(deny miri fuzz asan asan-mysql-9.7 pauses crash deb deb-mysql-9.7 deb-mysql-8.0)
checks=("${@:-${all[@]}}")

run() {
    case $1 in
        deny | miri | fuzz | crash) make "$1" ;;
        asan | pauses) make "test-$1" ;;
        deb) make test-deb ;;
        asan-*) make test-asan "SERVER=${1#*-}" ;;
        deb-*) make test-deb "SERVER=${1#*-}" ;;
    esac
}

for check in "${checks[@]}"; do
    [[ " ${all[*]} " == *" $check "* ]] || {
        echo "check-deep.sh: there is no check $check (${all[*]})" >&2
        exit 2
    }
done
mkdir -p build/deep
summary=()
failed=0
for check in "${checks[@]}"; do
    begin=$SECONDS
    echo "check-deep.sh: $check (build/deep/$check.log)" >&2
    if run "$check" >"build/deep/$check.log" 2>&1 </dev/null; then
        result=passed
    else
        result=FAILED
        failed=1
    fi
    summary+=("$(printf '%-14s %s  %5d s' "$check" "$result" $((SECONDS - begin)))")
    echo "${summary[-1]}" >&2
done
printf '%s\n' "${summary[@]}"
exit "$failed"
