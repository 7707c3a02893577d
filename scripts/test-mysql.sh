#!/usr/bin/env bash
# Builds the component, or the plugin, for a MySQL and runs the tests with that server. Where it
# cannot be had, it says so and runs none: the suite that 9.7 comes from moves.
#
#   scripts/test-mysql.sh [mysql-9.7 | mysql-8.0]    without: both
set -euo pipefail
cd "$(dirname "$0")/.."

test_release() {
    local release=$1 code=0 skipped=()
    scripts/setup-mysql.sh "$release" || code=$?
    if [ "$code" -eq 3 ]; then
        echo "test-mysql.sh: THE TESTS WITH $release WERE NOT RUN (see above)" >&2
        return 0
    elif [ "$code" -ne 0 ]; then
        return "$code"
    fi
    scripts/build-mysql.sh "$release"
    scripts/plugin-symbols.sh "$release"
    # The bench's and the profiler's tests run the command as it is built.
    cargo build --release -p tacho
    install -D -m 755 "${CARGO_TARGET_DIR:-target}/release/tacho" build/bin/tacho
    # Counted on 9.7; here it takes three minutes more, and passes, too.
    [ "$release" = mysql-9.7 ] || skipped=(--skip instructions_are_counted)
    TACHO_SERVER=$release cargo test -p tacho-tests --no-fail-fast \
        --test mysql_bench --test mysql_clients --test mysql_component --test mysql_ends \
        --test mysql_hotzone --test mysql_pmp --test mysql_privileges --test mysql_rewrite \
        --test mysql_rules --test mysql_secrets --test mysql_traces --test mysql_upgrade \
        -- --include-ignored "${skipped[@]}"
}

if [ $# -gt 0 ]; then
    test_release "$1"
else
    test_release mysql-9.7
    test_release mysql-8.0
fi
