#!/usr/bin/env bash
# Puts Quill's headers into build/bench/quill, from the package quill-dev. Debian 12 does not have
# it, so it is taken from the newest Debian, with the mirror and the keys of this machine's apt, and
# only unpacked: headers need nothing else of that Debian. If it is not available, the bench runs
# without Quill, and reports it.
set -euo pipefail
cd "$(dirname "$0")/../.."

out="$PWD/build/bench/quill"
if [ -e "$out/usr/include/quill/Backend.h" ]; then
    exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/tacho-quill-XXXXXX")
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2016 # apt-get expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' |
    head -n 1)
if [ -z "$mirror" ]; then
    echo "loggers: apt knows no Debian mirror, no Quill" >&2
    exit 1
fi
mkdir -p "$work"/{lists,cache/archives}/partial
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" \
    >"$work/sources.list"
# Separate lists: the suite must not be added to the machine's apt. As root apt would fetch as a
# user who may not write here.
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$work" && "${apt[@]}" download quill-dev)
dpkg-deb --extract "$work"/quill-dev_*.deb "$work/root"
mkdir -p "$(dirname "$out")"
mv "$work/root" "$out"
