#!/usr/bin/env bash
# Builds the documents into a site, build/site, with mdBook.
#
# mdBook takes pages from one folder only, but README.md and others lie outside of docs/. So they are
# copied as they lie in the clone: the same relative links hold there, on the site, and installed.
set -euo pipefail
cd "$(dirname "$0")/.."

# Features of the default that are left out: its server, and watching files.
mdbook=$(scripts/cargo-tool.sh mdbook 0.5.4 --no-default-features --features search)
source=build/site-source
site=build/site

rm -rf "$source" "$site"
mkdir -p "$source/src"
cp README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md "$source/src/"
cp -r docs "$source/src/"
mv "$source"/src/docs/{book.toml,site.css,tabs.js} "$source/"
# mdBook wants the list of pages at the top of its source: links are those of docs/, one level up.
sed -E 's#\]\(\.\./#](#; t; s#\]\(([^)]+)\)#](docs/\1)#' docs/SUMMARY.md >"$source/src/SUMMARY.md"
rm "$source/src/docs/SUMMARY.md"

"$mdbook" build "$source" --dest-dir "$PWD/$site"
scripts/check-links.py .
scripts/check-site.py "$site"
echo "site.sh: $PWD/$site/index.html"
