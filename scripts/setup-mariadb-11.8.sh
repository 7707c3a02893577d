#!/usr/bin/env bash
# Fetches MariaDB 11.8 from Debian trixie into a folder: server, headers, its test framework, and
# the C library that they need. It changes nothing else on this machine. apt checks signatures and
# sums. You may run it repeatedly; it prints the folder.
set -euo pipefail

self=setup-mariadb-11.8
suite=trixie
root="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/mariadb-11.8"
# Its name changes when more is fetched: then an older folder is rebuilt.
complete=$root/complete-with-tests
# shellcheck source=scripts/debian-root.sh
. "$(dirname "$0")/debian-root.sh"
security=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}

if [ -e "$complete" ]; then
    echo "$root"
    exit 0
fi
need_programs apt-get dpkg-deb gcc patchelf
lock_root
if [ -e "$complete" ]; then
    echo "$root"
    exit 0
fi

make_apt "deb [signed-by=$keyring] $mirror $suite main" \
    "deb [signed-by=$keyring] $security $suite-security main"
say "fetching MariaDB and what it needs (110 MB or so)"
unpack_packages 110 mariadb-server libmariadbd-dev mariadb-test
adopt_programs 'maria*' 'my_*' resolveip

rm -rf "$root"
mv "$work/root" "$root"
version=$("$root/usr/sbin/mariadbd" --no-defaults --version) || fail "its mariadbd does not run"
case "$version" in
    *" 11.8."*) ;;
    *) fail "this is not MariaDB 11.8: $version" ;;
esac
echo "$version" >"$complete"
say "$version"
echo "$root"
