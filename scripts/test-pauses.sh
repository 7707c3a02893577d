#!/usr/bin/env bash
# Runs the tests that have a server with a writer that pauses at random, for up to 60 ms
# (crates/recorder/src/pause.rs): code that relies on a fast writer fails. Twenty minutes.
#
#   scripts/test-pauses.sh [RELEASE]    mariadb (the default), mariadb-11.8, mysql-9.7 or mysql-8.0
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
family=${release%%-*}

export TACHO_FEATURES=pauses

build() {
    cargo build --release -p tacho ${TACHO_FEATURES:+--features "$TACHO_FEATURES"}
    install -D -m 755 "${CARGO_TARGET_DIR:-target}/release/tacho" build/bin/tacho
    "scripts/build-$family.sh" "$release"
}

# The existing files in build/ do not pause.
trap 'TACHO_FEATURES=; build' EXIT

if [ "$family" = mysql ]; then
    # That builds, too.
    TACHO_ALL_SERVERS=1 scripts/test-release.sh "$release"
else
    build
    scripts/test-server.sh "$release"
fi
