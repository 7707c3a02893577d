#!/usr/bin/env bash
# Fetches MariaDB 11.8 from Debian trixie into a folder of its own: server, headers, and the C
# library that they need. Nothing on this machine changes but that folder. apt checks signatures
# and sums. Run it as often as you like; prints the folder.
set -euo pipefail

self=setup-mariadb-11.8
suite=trixie
root="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/mariadb-11.8"
# shellcheck source=scripts/debian-root.sh
. "$(dirname "$0")/debian-root.sh"
security=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}

if [ -e "$root/complete" ]; then
    echo "$root"
    exit 0
fi
need_programs apt-get dpkg-deb gcc patchelf
lock_root
if [ -e "$root/complete" ]; then
    echo "$root"
    exit 0
fi

make_apt "deb [signed-by=$keyring] $mirror $suite main" \
    "deb [signed-by=$keyring] $security $suite-security main"
say "fetching MariaDB and what it needs (70 MB or so)"
unpack_packages mariadb-server libmariadbd-dev
adopt_programs mariadbd mariadb mariadb-admin mariadb-test my_print_defaults resolveip

rm -rf "$root"
mv "$work/root" "$root"
version=$("$root/usr/sbin/mariadbd" --no-defaults --version) || fail "its mariadbd does not run"
case "$version" in
    *" 11.8."*) ;;
    *) fail "this is not MariaDB 11.8: $version" ;;
esac
echo "$version" >"$root/complete"
say "$version"
echo "$root"
