#!/usr/bin/env bash
# Builds the component, or the plugin, for a MySQL and runs the tests with that server.
#
#   scripts/test-mysql.sh [mysql-9.7 | mysql-8.0]    without: both
#   TACHO_PASS=smoke                                 the short pass of scripts/test-server.sh
#   TACHO_FEATURES=pauses                            for scripts/test-pauses.sh
#   TACHO_MYSQL_OPTIONAL=1                           where a server is not to be had, do without its
#                                                    tests: the suite that 9.7 comes from moves, and
#                                                    8.0 is fetched by Maven. Without: that is a
#                                                    failure, for nothing was tested
set -euo pipefail
cd "$(dirname "$0")/.."

pass=${TACHO_PASS:-all}

test_release() {
    local release=$1 code=0 skipped=()
    scripts/setup-mysql.sh "$release" || code=$?
    if [ "$code" -eq 3 ]; then
        echo "test-mysql.sh: THE TESTS WITH $release WERE NOT RUN (see above)" >&2
        [ "${TACHO_MYSQL_OPTIONAL:-}" != 1 ] || return 0
        echo "test-mysql.sh: TACHO_MYSQL_OPTIONAL=1 lets the others pass without them" >&2
        return 1
    elif [ "$code" -ne 0 ]; then
        return "$code"
    fi
    scripts/build-mysql.sh "$release"
    scripts/plugin-symbols.sh "$release"
    # The bench's and the profiler's tests run the command as it is built.
    cargo build --release -p tacho ${TACHO_FEATURES:+--features "$TACHO_FEATURES"}
    install -D -m 755 "${CARGO_TARGET_DIR:-target}/release/tacho" build/bin/tacho
    scripts/test-install.sh "$release"
    # Counted on 9.7; here it takes three minutes more, and passes, too.
    [ "$release" = mysql-9.7 ] || skipped=(--skip instructions_are_counted)
    scripts/test-server.sh "$release" "$pass" -- "${skipped[@]}"
}

if [ $# -gt 0 ]; then
    test_release "$1"
else
    test_release mysql-9.7
    test_release mysql-8.0
fi
