#!/usr/bin/env bash
# Builds the image of a server with the recorder in it, kills its container under load, and
# compares the rows that it had acknowledged with the log; then ships the log to a container of the
# hub. Needs root or rootless podman, and some 2 GB for a while.
#
#   scripts/test-container.sh [mariadb | mariadb-11.8 | mysql-9.7 | mysql-8.0]
#
# The images are not based on the official ones, but on stand-ins with their paths and the ways in
# which their entrypoints run the server (tests/container). Podman is rootless: scripts/rootless.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/packages.sh
. scripts/packages.sh

release=${1:-mariadb}
release_facts "$release"
fail() {
    printf 'test-container.sh: %s\n' "$*" >&2
    exit 1
}
say() { printf 'test-container.sh: %s\n' "$*"; }
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

# make_system TAR SUITE PACKAGES: a Debian system, for podman import.
make_system() {
    local valid_until
    valid_until=$(apt-config dump Acquire::Check-Valid-Until)
    mmdebstrap --quiet --variant=minbase --include="$3" \
        ${valid_until:+"--aptopt=$valid_until"} "$2" "$1" "deb $mirror $2 main"
}

# server_files DIRECTORY: what the stand-in has besides its Debian system.
server_files() {
    local to=$1 from
    install -D -m 755 tests/container/docker-entrypoint.sh "$to/usr/local/bin/docker-entrypoint.sh"
    if [ "$family" = mariadb ]; then
        mkdir -p "$to/etc/mysql" "$to/usr/lib/mysql/plugin"
        printf '[client-server]\nsocket=/run/mysqld/mysqld.sock\n!includedir %s\n' \
            /etc/mysql/conf.d/ >"$to/etc/mysql/my.cnf"
        return
    fi
    from=$(scripts/setup-mysql.sh "$release")/usr
    mkdir -p "$to"/etc "$to"/usr/{bin,sbin,share,lib64/mysql}
    cp -r "$from/lib/mysql/plugin" "$to/usr/lib64/mysql/plugin"
    {
        printf '[mysqld]\ndatadir=/var/lib/mysql\nsocket=/run/mysqld/mysqld.sock\n'
        printf 'plugin_dir=/usr/lib64/mysql/plugin\npid-file=/run/mysqld/mysqld.pid\n'
        # Of a build for other paths.
        [ "$release" != mysql-8.0 ] || printf 'lc_messages_dir=/usr/share/mysql-8.0\n%s\n' \
            character_sets_dir=/usr/share/mysql-8.0/charsets
        printf '[client]\nsocket=/run/mysqld/mysqld.sock\n!includedir /etc/mysql/conf.d/\n'
    } >"$to/etc/my.cnf"
    if [ "$release" = mysql-8.0 ]; then
        cp "$from/bin/mysqld" "$to/usr/sbin/"
        cp "$from"/bin/{mysql,mysqladmin} "$to/usr/bin/"
        cp -r "$from/lib/private" "$to/usr/lib/"
        cp -r "$from/share" "$to/usr/share/mysql-8.0"
    fi
}

prepare() {
    local suite=bookworm packages
    case "$release" in
        mariadb*)
            packages=mariadb-server-core,mariadb-client-core
            [ "$release" = mariadb ] || suite=trixie
            ;;
        mysql-8.0) packages=libaio1,libnuma1,libncurses6,libstdc++6 ;;
        *) suite=sid packages=mysql-server-core,mysql-client-core ;;
    esac
    make_system "$work/system.tar" "$suite" "$packages"
    # For the hub.
    make_system "$work/hub.tar" bookworm ca-certificates
    mkdir -p "$work/standin"
    server_files "$work/standin/files"
    chmod -R a+rX "$work"
}

hadolint=$(scripts/setup-hadolint.sh)
"$hadolint" packaging/container/Containerfile.* || fail "hadolint has something to say"
need_built build/bin/tacho "build/$release/$library"
work=$(mktemp -d /var/tmp/tacho-container.XXXXXX)
# A file system in the host's memory, as a server on this host would have it.
# The user of podman makes it.
arena=/dev/shm/${work##*/}
mkdir "$work/home"
chmod 755 "$work"
cleanup() {
    # Only root or podman can remove the files of subordinate users.
    if [ "$(id -u)" -eq 0 ]; then
        rm -rf --one-file-system "$work" "$arena"
    else
        env HOME="$work/home" podman unshare rm -rf "$work" "$arena" || true
    fi
}
trap cleanup EXIT
say "stand-ins for the official images"
prepare
scripts/rootless.sh "$work/home" scripts/test-container-inside.sh "$release" "$work" "$arena"
say "passed ($release)"
