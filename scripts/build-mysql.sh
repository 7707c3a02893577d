#!/usr/bin/env bash
# Builds the component, or the plugin, for MySQL: the recorder as one optimised static library, and
# the adapter around it, compiled against the headers of one release.
#
#   scripts/build-mysql.sh [mysql-9.7 [FLAG...]]    build/mysql-9.7/component_tacho.so
#   scripts/build-mysql.sh mysql-8.0 [FLAG...]      build/mysql-8.0/tacho.so
#   FLAG                                            for the C++ compiler, besides its own
#   TACHO_FEATURES=pauses                           for scripts/test-pauses.sh
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mysql-9.7}
shift || true
root=$(scripts/setup-mysql.sh "$release")
target="${CARGO_TARGET_DIR:-target}"
out=build/$release
mkdir -p "$out/objects"

case "$release" in
    mysql-8.0)
        library=tacho.so
        adapter=adapters/mysql8
        # Options of both, and those of the plugin only.
        sources=(adapters/common/*.cc adapters/mysql8/*.cc)
        for source in adapters/mysql/*.cc; do
            [ "$source" = adapters/mysql/component.cc ] || sources+=("$source")
        done
        ;;
    *)
        library=component_tacho.so
        adapter=adapters/mysql
        sources=(adapters/common/*.cc adapters/mysql/*.cc)
        ;;
esac

version=$(scripts/version.sh)
cargo build --profile inproc -p tacho-embed ${TACHO_FEATURES:+--features "$TACHO_FEATURES"}

# Without exceptions and RTTI nothing can be thrown through the server's C frames.
# The version script leaves only the entry points visible.
flags=(-std=c++17 -O2 -g -fPIC -fno-exceptions -fno-rtti -fno-plt
    -ffunction-sections -fdata-sections -ftls-model=initial-exec
    -Wall -Wextra -Werror -Wno-unused-parameter
    -DTACHO_SERVER_MYSQL "-DTACHO_VERSION=\"$version\"" -Iinclude -Iadapters/mysql
    -isystem "$root/source/include")
objects=()
for source in "${sources[@]}"; do
    # Two folders have files of the same name.
    object="$out/objects/$(basename "$(dirname "$source")")-$(basename "$source" .cc).o"
    g++ "${flags[@]}" "$@" -c "$source" -o "$object"
    objects+=("$object")
done
# The symbols that a plugin takes from the server besides services are only known when it is loaded.
undefined=('-Wl,--no-undefined')
[ "$release" != mysql-8.0 ] || undefined=()
g++ -shared "$@" -o "$out/$library.new" "${objects[@]}" "$target/inproc/libtacho_embed.a" \
    -Wl,--gc-sections -Wl,--version-script="$adapter/exports.map" \
    -Wl,-z,relro -Wl,-z,now "${undefined[@]}" -Wl,--as-needed -lpthread -ldl -lm
# Renamed into place: a server that has the old one mapped keeps it.
mv "$out/$library.new" "$out/$library"
