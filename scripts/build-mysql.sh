#!/usr/bin/env bash
# Builds the component for MySQL: the recorder as one optimised static library, and the adapter
# around it, compiled against the headers of one release.
#
#   scripts/build-mysql.sh [mysql-9.7 [FLAG...]]    build/mysql-9.7/component_tacho.so
#   FLAG                                            for the C++ compiler, besides its own
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mysql-9.7}
shift || true
root=$(scripts/setup-mysql.sh "$release")
target="${CARGO_TARGET_DIR:-target}"
out=build/$release
mkdir -p "$out/objects"

cargo build --profile inproc -p tacho-embed

# Without exceptions and RTTI nothing can be thrown through the server's C frames.
# The version script leaves only the component's own entry point visible.
flags=(-std=c++17 -O2 -g -fPIC -fno-exceptions -fno-rtti -fno-plt
    -ffunction-sections -fdata-sections -ftls-model=initial-exec
    -Wall -Wextra -Werror -Wno-unused-parameter
    -DTACHO_SERVER_MYSQL -Iinclude -Iadapters/mysql
    -isystem "$root/source/include")
objects=()
for source in adapters/common/*.cc adapters/mysql/*.cc; do
    object="$out/objects/$(basename "$source" .cc).o"
    g++ "${flags[@]}" "$@" -c "$source" -o "$object"
    objects+=("$object")
done
g++ -shared -o "$out/component_tacho.so.new" "${objects[@]}" "$target/inproc/libtacho_embed.a" \
    -Wl,--gc-sections -Wl,--version-script=adapters/mysql/exports.map \
    -Wl,-z,relro -Wl,-z,now -Wl,--no-undefined -Wl,--as-needed -lpthread -ldl -lm
# Renamed into place: a server that has the old one mapped keeps it.
mv "$out/component_tacho.so.new" "$out/component_tacho.so"
