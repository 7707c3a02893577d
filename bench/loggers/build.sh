#!/usr/bin/env bash
# Builds build/bench/loggers: the recorder as it is in the plugin, and the loggers that are
# installed, in one program. Quill's headers are looked for in QUILL_INCLUDE, too.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
out=build/bench/loggers.objects
mkdir -p "$out"

cargo build --quiet --profile inproc -p tacho-embed

flags=(-std=c++17 -O2 -g -DNDEBUG -Wall -Wextra -Iinclude)
libraries=()
if pkg-config --exists spdlog; then
    read -ra spdlog <<<"$(pkg-config --cflags spdlog)"
    flags+=("${spdlog[@]}")
    read -ra libraries <<<"$(pkg-config --libs spdlog)"
fi
quill="${QUILL_INCLUDE:-build/bench/quill/usr/include}"
if [ -e "$quill/quill/Backend.h" ]; then
    flags+=(-isystem "$quill")
fi
objects=()
for source in bench/loggers/*.cc; do
    object="$out/$(basename "$source" .cc).o"
    g++ "${flags[@]}" -c "$source" -o "$object"
    objects+=("$object")
done
g++ -o build/bench/loggers "${objects[@]}" "$target/inproc/libtacho_embed.a" \
    -Wl,--gc-sections -Wl,--as-needed "${libraries[@]}" -lpthread -ldl -lm
