#!/usr/bin/env bash
# Compiles a tool from crates.io once for all clones, and prints its path.
#
#   scripts/cargo-tool.sh NAME VERSION [FLAG...]    FLAG: of cargo install
set -euo pipefail

name=$1 version=$2
shift 2
root="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/$name-$version"
if [ ! -x "$root/bin/$name" ]; then
    command -v cargo >/dev/null || {
        echo "cargo-tool.sh: cannot compile $name: there is no cargo; run scripts/setup.sh run" >&2
        exit 1
    }
    echo "cargo-tool.sh: compiling $name $version into $root, which takes some minutes" >&2
    mkdir -p "$root"
    exec 9>"$root/lock"
    flock 9
    [ -x "$root/bin/$name" ] ||
        CARGO_TARGET_DIR="$root/target" cargo install --locked --quiet --root "$root" "$@" \
            --version "$version" "$name" >&2
    rm -rf "$root/target"
fi
echo "$root/bin/$name"
