#!/usr/bin/env bash
# Fetches DuckDB's library, which the hub's query process loads, and prints its path. It changes
# nothing else on this machine. You may run it repeatedly.
#
#   scripts/setup-duckdb.sh     25 MB to fetch, 70 MB to keep
#
# The library is the one of DuckDB's own package for Node: the same release as prebuilt library,
# for glibc 2.25 and later. npm reads its registry from the user's .npmrc.
set -euo pipefail

self=setup-duckdb
release=1.5.5
package=@duckdb/node-bindings-linux-x64@1.5.5-r.5
sum=fc23f12e376c47be520f75221288281906e7942e8fd6f6ce4849198ba60d0405
root="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/duckdb-$release"
library=$root/libduckdb.so

say() { printf '%s: %s\n' "$self" "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

if [ -e "$library" ]; then
    echo "$library"
    exit 0
fi
[ "$(uname -m)" = x86_64 ] || fail "the library is for x86_64"
for program in npm tar sha256sum flock; do
    command -v "$program" >/dev/null || fail "needs $program (scripts/setup.sh test installs it)"
done

# One at a time: tests of several clones share the folder.
mkdir -p "${root%/*}"
exec 9>"$root.lock"
flock 9
if [ -e "$library" ]; then
    echo "$library"
    exit 0
fi
work=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "fetching DuckDB $release (25 MB)"
(cd "$work" && npm pack --silent "$package" >/dev/null) || fail "npm cannot fetch $package"
tar -xzf "$work"/*.tgz -C "$work" package/libduckdb.so package/LICENSE ||
    fail "$package has no libduckdb.so"
echo "$sum  $work/package/libduckdb.so" | sha256sum --check --quiet >&2 ||
    fail "$package has another libduckdb.so than expected"
rm -rf "$root"
mv "$work/package" "$root"
echo "$library"
