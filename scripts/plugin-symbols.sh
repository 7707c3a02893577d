#!/usr/bin/env bash
# Checks what the built plugin shows to the server and what it takes from elsewhere: exports
# are the entry points of a plugin, imports are those of adapters/mariadb/imports.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

plugin=build/${1:-mariadb}/tacho.so
names() { nm -D "$@" "$plugin" | awk '{print $NF}' | sed 's/@.*//' | LC_ALL=C sort -u; }

exports=$(names --defined-only)
expected=$(sed -n 's/^ *\([a-z_]*\);$/\1/p' adapters/mariadb/exports.map | LC_ALL=C sort -u)
if [ "$exports" != "$expected" ]; then
    echo "plugin-symbols.sh: $plugin exports other symbols than exports.map allows:" >&2
    diff <(echo "$expected") <(echo "$exports") >&2 || true
    exit 1
fi

unknown=$(LC_ALL=C comm -23 <(names --undefined-only) \
    <(grep -v '^#' adapters/mariadb/imports.txt | LC_ALL=C sort -u))
if [ -n "$unknown" ]; then
    echo "plugin-symbols.sh: $plugin imports symbols that imports.txt does not list:" >&2
    echo "$unknown" >&2
    exit 1
fi
echo "plugin-symbols.sh: exports and imports of $plugin are as listed"
