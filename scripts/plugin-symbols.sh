#!/usr/bin/env bash
# Checks the symbols that the built plugin, or component, exports and imports: exports are the entry
# points in the adapter's exports.map, imports those in its imports.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
more_imports=()
case "$release" in
    mysql-8.0)
        adapter=adapters/mysql8
        more_imports=(adapters/mysql/imports.txt)
        plugin=build/$release/tacho.so
        ;;
    mysql-*)
        adapter=adapters/mysql
        plugin=build/$release/component_tacho.so
        ;;
    *)
        adapter=adapters/mariadb
        plugin=build/$release/tacho.so
        ;;
esac
# One that was installed.
plugin=${2:-$plugin}
names() { nm -D "$@" "$plugin" | awk '{print $NF}' | sed 's/@.*//' | LC_ALL=C sort -u; }

exports=$(names --defined-only)
expected=$(sed -n 's/^ *\([a-z_]*\);$/\1/p' $adapter/exports.map | LC_ALL=C sort -u)
if [ "$exports" != "$expected" ]; then
    echo "plugin-symbols.sh: $plugin exports other symbols than exports.map allows:" >&2
    diff <(echo "$expected") <(echo "$exports") >&2 || true
    exit 1
fi

unknown=$(LC_ALL=C comm -23 <(names --undefined-only) \
    <(grep -hv '^#' $adapter/imports.txt "${more_imports[@]}" | LC_ALL=C sort -u))
if [ -n "$unknown" ]; then
    echo "plugin-symbols.sh: $plugin imports symbols that imports.txt does not list:" >&2
    echo "$unknown" >&2
    exit 1
fi
echo "plugin-symbols.sh: exports and imports of $plugin are as listed"
