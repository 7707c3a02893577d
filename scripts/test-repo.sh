#!/usr/bin/env bash
# Makes a signed apt repository of small packages with the names and versions of ours, and asks apt
# what each release of a distribution would install. Changes nothing outside a directory of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GNUPGHOME=$work/gnupg
mkdir -m 700 "$GNUPGHOME"
gpg --batch --quiet --passphrase '' --quick-generate-key repo@tachograph.test ed25519 sign never

# A clone of what the script needs: it works below its own directory.
mkdir -p "$work/clone/scripts" "$work/clone/build/deb"
cp scripts/repo.sh "$work/clone/scripts/"
package() {
    local root=$work/package
    rm -rf "$root"
    mkdir -p "$root/DEBIAN"
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' "$1" "$2" \
        "$(dpkg --print-architecture)" >"$root/DEBIAN/control"
    printf 'Maintainer: x <x@example.org>\nDescription: x\n' >>"$root/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$root" "$work/clone/build/deb/$1_$2_amd64.deb" >/dev/null
}
package tacho 1.0
package tacho-hub 1.0
for server in mariadb10.11 mariadb11.8; do package mariadb-plugin-tacho "1.0+$server"; done
package mysql-component-tacho 1.0+mysql9.7
package mysql-plugin-tacho 1.0+mysql8.0
"$work/clone/scripts/repo.sh" repo@tachograph.test >"$work/said"

# candidates RELEASE: each package and the version that apt would install.
candidates() {
    local root=$work/apt-$1
    local repo=$work/clone/build/repo
    mkdir -p "$root"/{state/lists/partial,cache/archives/partial,etc}
    echo "deb [signed-by=$repo/tachograph.gpg] file:$repo $1 main" >"$root/etc/sources.list"
    : >"$root/status"
    local options=(-o "Dir::Etc::sourcelist=$root/etc/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State=$root/state" -o "Dir::Cache=$root/cache" -o "Dir::State::status=$root/status"
        -o APT::Sandbox::User=root)
    apt-get "${options[@]}" -qq update
    apt-cache "${options[@]}" policy tacho tacho-hub mariadb-plugin-tacho mysql-component-tacho \
        mysql-plugin-tacho | awk '/^[^ ]/ { name = $1 } /Candidate:/ { printf "%s%s ", name, $2 }'
}

# expect RELEASE CANDIDATES
expect() {
    local found
    found=$(candidates "$1")
    [ "$found" = "$2 " ] || {
        printf 'test-repo.sh: %s has\n  %s\nand not\n  %s\n' "$1" "$found" "$2" >&2
        exit 1
    }
}
all='tacho:1.0 tacho-hub:1.0'
expect bookworm "$all mariadb-plugin-tacho:1.0+mariadb10.11 mysql-plugin-tacho:1.0+mysql8.0"
expect trixie "$all mariadb-plugin-tacho:1.0+mariadb11.8"
expect sid "$all mariadb-plugin-tacho:1.0+mariadb11.8 mysql-component-tacho:1.0+mysql9.7"
expect noble "$all mariadb-plugin-tacho:1.0+mariadb10.11 mysql-plugin-tacho:1.0+mysql8.0"

# A changed list is refused.
echo 'Package: evil' >>"$work/clone/build/repo/dists/trixie/main/binary-amd64/Packages"
rm "$work/clone/build/repo/dists/trixie/main/binary-amd64/Packages.gz"
rm -r "$work/apt-trixie"
candidates trixie >"$work/changed" 2>&1 || true
if ! grep -q 'Hash Sum mismatch' "$work/changed"; then
    echo "test-repo.sh: apt has accepted a list that was changed: $(cat "$work/changed")" >&2
    exit 1
fi
echo "test-repo.sh: passed"
