#!/usr/bin/env bash
# Builds build/mariadb/tacho.so: the recorder as one optimised static library, and the
# adapter around it.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}"
out=build/mariadb
mkdir -p "$out/objects"

cargo build --profile inproc -p tacho-embed

# Without exceptions and RTTI nothing can be thrown through the server's C frames.
# The version script leaves only the plugin's own entry points visible.
flags=(-std=c++17 -O2 -g -fPIC -fno-exceptions -fno-rtti -fno-plt
    -ffunction-sections -fdata-sections -ftls-model=initial-exec
    -Wall -Wextra -Werror -Wno-unused-parameter
    -DMYSQL_DYNAMIC_PLUGIN -Iinclude -Iadapters/mariadb
    -isystem /usr/include/mariadb/server)
objects=()
for source in adapters/mariadb/*.cc; do
    object="$out/objects/$(basename "$source" .cc).o"
    g++ "${flags[@]}" "$@" -c "$source" -o "$object"
    objects+=("$object")
done
g++ -shared -o "$out/tacho.so.new" "${objects[@]}" "$target/inproc/libtacho_embed.a" \
    -Wl,--gc-sections -Wl,--version-script=adapters/mariadb/exports.map \
    -Wl,-z,relro -Wl,-z,now -lmysqlservices -Wl,--as-needed -lpthread -ldl -lm
# Renamed into place: a server that has the old one mapped keeps it.
mv "$out/tacho.so.new" "$out/tacho.so"
