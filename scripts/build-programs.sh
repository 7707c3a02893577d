#!/usr/bin/env bash
# Builds the command and the hub, with the web UI in it. Beside the hub is a link to the library of
# DuckDB, which its query processes load.
#
#   scripts/build-programs.sh release   build/bin: what is installed
#   scripts/build-programs.sh tests     build/bin-dev: with all tests of the workspace, unoptimised.
#                                       Tests with TACHO_BIN=$PWD/build/bin-dev use it
set -euo pipefail
cd "$(dirname "$0")/.."

PATH="$(scripts/setup-node.sh):$PATH"
export PATH
scripts/ui.sh build >&2
case ${1:-} in
    release)
        cargo build --release -p tacho
        cargo build --release -p tacho-hub
        profile=release bin=build/bin
        ;;
    tests)
        cargo test --workspace --exclude tacho-tidy --no-run
        profile=debug bin=build/bin-dev
        ;;
    *)
        echo "usage: scripts/build-programs.sh release | tests" >&2
        exit 2
        ;;
esac
for program in tacho tacho-hub; do
    install -D -m 755 "${CARGO_TARGET_DIR:-target}/$profile/$program" "$bin/$program"
done
ln -sfn "$(scripts/setup-duckdb.sh)" "$bin/libduckdb.so"
