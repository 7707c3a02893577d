#!/usr/bin/env bash
# The speed of the writer, and its cost per line; see README.md. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
# As it is built into the plugin: one optimised unit.
cargo build --quiet --profile inproc -p tacho-embed -p tacho-cost
program="$target/inproc/tacho-cost"
mkdir -p build/bench
work=$(mktemp -d "$PWD/build/bench/writer-XXXXXX")
memory=$(mktemp -d /dev/shm/tacho-bench-XXXXXX)
trap 'rm -rf "$work" "$memory"' EXIT

echo "== rates of the writer's own processor time, one core (target: 1.5 M records/s)"
for shape in select literals join point; do
    echo "-- $shape, log on tmpfs"
    "$program" writer "$shape" "$memory/log-$shape" "${ROUNDS:-12}"
    echo "-- the same, sealed, as it is by default"
    "$program" writer "$shape" "$memory/sealed-$shape" "${ROUNDS:-12}" $((64 << 20)) \
        "$memory/key-$shape"
done
echo "-- select, log on disk"
"$program" writer select "$work/log" "${ROUNDS:-12}"

echo "== instructions per line of select by function, inclusive (callgrind)"
valgrind --tool=callgrind --toggle-collect=measured_round \
    --callgrind-out-file="$work/callgrind" "$program" writer select "$memory/counted" 1 16777216 \
    >"$work/stdout" 2>"$work/stderr"
lines=$(sed -n 's/.* \([0-9]*\) lines per round)/\1/p;q' "$work/stdout")
callgrind_annotate --inclusive=yes --threshold=100 "$work/callgrind" 2>/dev/null |
    sed -n 's/^ *\([0-9,]*\) (.*:\([A-Za-z_<>]*::[A-Za-z_:<>]*\) \[.*/\1 \2/p' | tr -d , |
    awk -v lines="$lines" '$2 ~ /^(tacho|<?[a-z_]*::)/ && $1 / lines >= 40 && !seen[$2]++ {
        printf "%7.0f  %s\n", $1 / lines, $2 }'
