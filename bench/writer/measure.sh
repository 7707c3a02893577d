#!/usr/bin/env bash
# How fast the writer is, and what a line costs it; see README.md. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
# As it is built into the plugin: one optimised unit.
cargo build --quiet --profile inproc -p tacho-recorder --example writer_cost
program="$target/inproc/examples/writer_cost"
mkdir -p build/bench
work=$(mktemp -d "$PWD/build/bench/writer-XXXXXX")
memory=$(mktemp -d /dev/shm/tacho-bench-XXXXXX)
trap 'rm -rf "$work" "$memory"' EXIT

# Runs one round over SHAPE in an arena of BYTES under callgrind. Prints its instructions, and
# how many lines it wrote.
count() { # SHAPE BYTES
    rm -rf "$memory/counted"
    valgrind --tool=callgrind --toggle-collect=measured_round \
        --callgrind-out-file="$work/callgrind" "$program" "$1" "$memory/counted" 1 "$2" \
        >"$work/stdout" 2>"$work/stderr"
    sed -n 's/.*Collected : //p' "$work/stderr"
    sed -n 's/.* \([0-9]*\) lines per round)/\1/p;q' "$work/stdout"
}

echo "== rates of the writer's own processor time, one core (target: 1.5 M records/s)"
for shape in select join point; do
    echo "-- $shape, log on tmpfs"
    "$program" "$shape" "$memory/log-$shape" "${ROUNDS:-12}"
done
echo "-- select, log on disk"
"$program" select "$work/log" "${ROUNDS:-12}"

echo "== instructions per line (callgrind)"
for shape in join point select; do
    # A large and a small round: what a round costs by itself cancels out.
    mapfile -t small < <(count "$shape" 8388608)
    mapfile -t large < <(count "$shape" 16777216)
    echo "$shape $(((large[0] - small[0]) / (large[1] - small[1])))"
done

echo "== of these by function, inclusive, for the last one"
callgrind_annotate --inclusive=yes --threshold=100 "$work/callgrind" 2>/dev/null |
    sed -n 's/^ *\([0-9,]*\) (.*:\([A-Za-z_<>]*::[A-Za-z_:<>]*\) \[.*/\1 \2/p' | tr -d , |
    awk -v lines="${large[1]}" '$2 ~ /^(tacho|<?[a-z_]*::)/ && $1 / lines >= 40 && !seen[$2]++ {
        printf "%7.0f  %s\n", $1 / lines, $2 }'
