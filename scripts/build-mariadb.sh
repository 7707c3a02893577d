#!/usr/bin/env bash
# Builds the plugin: the recorder as one optimised static library, and the adapter around it,
# compiled against the headers of one release.
#
#   scripts/build-mariadb.sh [RELEASE [FLAG...]]
#
#   mariadb        the MariaDB that is installed here, 10.11: build/mariadb/tacho.so (the default)
#   mariadb-11.8   that of scripts/setup-mariadb-11.8.sh: build/mariadb-11.8/tacho.so
#   FLAG           for the C++ compiler, besides its own
#   TACHO_FEATURES=pauses    for scripts/test-pauses.sh
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
shift || true
case "$release" in
    mariadb) root= ;;
    mariadb-11.8) root=$(scripts/setup-mariadb-11.8.sh) ;;
    *)
        echo "build-mariadb.sh: there is no release $release (mariadb, mariadb-11.8)" >&2
        exit 2
        ;;
esac
target="${CARGO_TARGET_DIR:-target}"
out=build/$release
mkdir -p "$out/objects"

version=$(scripts/version.sh)
cargo build --profile inproc -p tacho-embed ${TACHO_FEATURES:+--features "$TACHO_FEATURES"}

# Without exceptions and RTTI nothing can be thrown through the server's C frames.
# The version script leaves only the plugin's own entry points visible.
# Releases add members to the structures that a plugin fills; those it does not name are zero.
flags=(-std=c++17 -O2 -g -fPIC -fno-exceptions -fno-rtti -fno-plt
    -ffunction-sections -fdata-sections -ftls-model=initial-exec
    -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers
    -DMYSQL_DYNAMIC_PLUGIN "-DTACHO_VERSION=\"$version\"" -Iinclude -Iadapters/mariadb
    -isystem "$root/usr/include/mariadb/server")
objects=()
for source in adapters/common/*.cc adapters/mariadb/*.cc; do
    object="$out/objects/$(basename "$source" .cc).o"
    g++ "${flags[@]}" "$@" -c "$source" -o "$object"
    objects+=("$object")
done
g++ -shared "$@" -o "$out/tacho.so.new" "${objects[@]}" "$target/inproc/libtacho_embed.a" \
    -Wl,--gc-sections -Wl,--version-script=adapters/mariadb/exports.map \
    -Wl,-z,relro -Wl,-z,now "-L$root/usr/lib/$(gcc -print-multiarch)" -lmysqlservices \
    -Wl,--as-needed -lpthread -ldl -lm
# Renamed into place: a server that has the old one mapped keeps it.
mv "$out/tacho.so.new" "$out/tacho.so"
