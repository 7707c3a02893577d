#!/usr/bin/env bash
# Runs every fuzz target for a while: FUZZ_SECONDS each, 60 by default. Needs a nightly
# toolchain and cargo-fuzz; `cargo test` runs the seeds and mutations of them without.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${FUZZ_SECONDS:-60}"
cargo +nightly fuzz --version >/dev/null 2>&1 || {
    echo "fuzz.sh: install cargo-fuzz first: cargo install cargo-fuzz (and: rustup toolchain install nightly)" >&2
    exit 1
}
for target in arena_hostile redact verify digest log_line filter rewrite_rule message; do
    echo "== $target, $seconds s"
    # What is found goes to a directory of its own; the committed seeds are only read.
    mkdir -p "fuzz/corpus-live/$target"
    seeds=()
    [ -d "fuzz/corpus/$target" ] && seeds=("corpus/$target")
    (cd fuzz && cargo +nightly fuzz run "$target" "corpus-live/$target" "${seeds[@]}" \
        -- -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1024 -malloc_limit_mb=512)
done
