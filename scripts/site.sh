#!/usr/bin/env bash
# Builds the documents into a site, build/site, with mdBook.
#
# mdBook takes pages from one folder only, but README.md and others lie outside of docs/. So they are
# copied as they lie in the clone: the same relative links hold there, on the site, and installed.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.5.4
root="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/mdbook-$version"
source=build/site-source
site=build/site

# Compiled once for all clones: about three minutes on two cores.
if [ ! -x "$root/bin/mdbook" ]; then
    command -v cargo >/dev/null || {
        echo "site.sh: cannot compile mdbook: there is no cargo; run scripts/setup.sh run" >&2
        exit 1
    }
    echo "site.sh: compiling mdbook $version into $root"
    mkdir -p "$root"
    exec 9>"$root/lock"
    flock 9
    # Features of the default that are left out: its server, and watching files.
    [ -x "$root/bin/mdbook" ] ||
        CARGO_TARGET_DIR="$root/target" cargo install --locked --quiet --root "$root" \
            --no-default-features --features search --version "$version" mdbook
    rm -rf "$root/target"
    flock -u 9
fi

rm -rf "$source" "$site"
mkdir -p "$source/src"
cp README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md "$source/src/"
cp -r docs "$source/src/"
mv "$source/src/docs/book.toml" "$source/src/docs/site.css" "$source/"
# mdBook wants the list of pages at the top of its source: links are those of docs/, one level up.
sed -E 's#\]\(\.\./#](#; t; s#\]\(([^)]+)\)#](docs/\1)#' docs/SUMMARY.md >"$source/src/SUMMARY.md"
rm "$source/src/docs/SUMMARY.md"

"$root/bin/mdbook" build "$source" --dest-dir "$PWD/$site"
scripts/check-links.py .
scripts/check-site.py "$site"
echo "site.sh: $PWD/$site/index.html"
