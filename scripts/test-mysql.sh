#!/usr/bin/env bash
# Builds the component for a MySQL and runs the tests with that server. Where it cannot be had, it
# says so and runs none: the suite that it comes from moves.
#
#   scripts/test-mysql.sh [mysql-9.7]
set -euo pipefail
cd "$(dirname "$0")/.."
release=${1:-mysql-9.7}

scripts/setup-mysql.sh "$release" || {
    code=$?
    if [ "$code" -eq 3 ]; then
        echo "test-mysql.sh: THE TESTS WITH $release WERE NOT RUN (see above)" >&2
        exit 0
    fi
    exit "$code"
}
scripts/build-mysql.sh "$release"
scripts/plugin-symbols.sh "$release"
cargo test -p tacho-tests --no-fail-fast --test mysql_component --test mysql_hotzone --test mysql_privileges --test mysql_traces -- --include-ignored
