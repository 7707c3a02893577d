#!/usr/bin/env bash
# Builds the hub with the web UI in it: build/bin/tacho-hub, and beside it a link to the library of
# DuckDB, which the hub's query processes load.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH="$(scripts/setup-node.sh):$PATH"
export PATH
scripts/ui.sh build >&2
cargo build --release -p tacho-hub
install -D -m 755 "${CARGO_TARGET_DIR:-target}/release/tacho-hub" build/bin/tacho-hub
ln -sfn "$(scripts/setup-duckdb.sh)" build/bin/libduckdb.so
