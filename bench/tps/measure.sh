#!/usr/bin/env bash
# Throughput without and with recording; see README.md. Needs `make build`.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec cargo run --quiet --release -p tacho-tests --bin tacho-tps -- "$@"
