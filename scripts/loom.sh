#!/bin/bash
# Runs the loom models of the ring (crates/ring/src/models.rs): every interleaving of a few
# threads. Fails if a model fails, and if no model ran.
set -euo pipefail
cd "$(dirname "$0")/.."

# A separate folder: the flag would otherwise cause full rebuilds.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
export RUSTFLAGS="--cfg loom"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --package tacho-ring --release --lib -- models:: 2>&1 | tee "$log"

if ! grep -Eq '^test result: ok\. [1-9][0-9]* passed' "$log"; then
  echo "loom.sh: no model ran" >&2
  exit 1
fi
