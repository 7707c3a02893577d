#!/usr/bin/env bash
# Runs fuzz targets for a while, FUZZ_SECONDS each (60 by default):
#   scripts/fuzz.sh [TARGET…]    all targets if none is given
# Needs a nightly toolchain and cargo-fuzz. `cargo test` runs the seeds of `arena_hostile` and `recovery`
# without either.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds="${FUZZ_SECONDS:-60}"
# For every target: no input takes longer than 5 s, or more than 512 MiB.
limits=(-timeout=5 -rss_limit_mb=512 -malloc_limit_mb=512)

missing() {
    echo "fuzz.sh: $1 is missing; install it first:" >&2
    echo "    rustup toolchain install nightly --profile minimal" >&2
    echo "    cargo install cargo-fuzz --locked" >&2
    exit 1
}
cargo +nightly --version >/dev/null 2>&1 || missing "the nightly toolchain"
cargo +nightly fuzz --version >/dev/null 2>&1 || missing cargo-fuzz

# fuzz/target, which git ignores: other builds use nothing there.
unset CARGO_TARGET_DIR
targets=("$@")
[ "$#" -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
cargo +nightly fuzz build
failed=()
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    # Findings go to a separate directory; the committed seeds are only read.
    mkdir -p "corpus-live/$target"
    seeds=()
    [ -d "corpus/$target" ] && seeds=("corpus/$target")
    cargo +nightly fuzz run "$target" "corpus-live/$target" "${seeds[@]}" \
        -- -max_total_time="$seconds" "${limits[@]}" || failed+=("$target")
done
[ "${#failed[@]}" -eq 0 ] || {
    echo "fuzz.sh: failed: ${failed[*]}; the inputs are in fuzz/artifacts/" >&2
    exit 1
}
