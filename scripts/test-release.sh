#!/usr/bin/env bash
# For each RELEASE: fetches the server, builds what it loads, checks and tests it.
#
#   scripts/test-release.sh RELEASE...   mariadb-11.8, mysql-9.7, mysql-8.0
#
#   TACHO_PASS=smoke          the short pass of scripts/test-server.sh (all)
#   TACHO_FEATURES=pauses     for scripts/test-pauses.sh
#   TACHO_BIN                 a directory with programs that are built; else build/bin is built
#   TACHO_ALL_SERVERS=1       fail if a server cannot be fetched. By default its tests are left out
#                             and scripts/left-out.sh lists it: the suites that 11.8 and 9.7 come
#                             from move, and 8.0 is fetched by Maven
set -euo pipefail
cd "$(dirname "$0")/.."

pass=${TACHO_PASS:-all}

# Exit code 3: it cannot be fetched.
fetch() {
    case $1 in
        mariadb-11.8) scripts/setup-mariadb-11.8.sh >/dev/null ;;
        mysql-9.7 | mysql-8.0) scripts/setup-mysql.sh "$1" >/dev/null ;;
        *)
            echo "test-release.sh: there is no release $1 (mariadb-11.8, mysql-9.7, mysql-8.0)" >&2
            return 2
            ;;
    esac
}

test_release() {
    local release=$1 family=${1%%-*} code=0 skipped=()
    fetch "$release" || code=$?
    if [ "$code" -eq 3 ]; then
        scripts/left-out.sh add "$release: the server cannot be fetched (TACHO_ALL_SERVERS=1 makes that an error)"
        [ "${TACHO_ALL_SERVERS:-}" != 1 ] || return 1
        return 0
    elif [ "$code" -ne 0 ]; then
        return "$code"
    fi
    "scripts/build-$family.sh" "$release"
    scripts/plugin-symbols.sh "$release"
    # The bench's and the profiler's tests run the command as it is built.
    if [ -z "${TACHO_BIN:-}" ]; then
        cargo build --release -p tacho ${TACHO_FEATURES:+--features "$TACHO_FEATURES"}
        install -D -m 755 "${CARGO_TARGET_DIR:-target}/release/tacho" build/bin/tacho
    fi
    [ "$family" = mariadb ] || scripts/test-install.sh "$release"
    # Counted on the others; here it takes three minutes more, and passes, too.
    [ "$release" != mysql-8.0 ] || skipped=(--skip instructions_are_counted)
    scripts/test-server.sh "$release" "$pass" -- "${skipped[@]}"
    [ "$family" != mariadb ] || scripts/mtr.sh "$release"
}

for release in "$@"; do
    test_release "$release"
done
