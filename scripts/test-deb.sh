#!/usr/bin/env bash
# Installs the packages of scripts/deb.sh into a clean Debian, starts its server and records a
# statement. Needs root, for the chroot, and some 700 MB for a while.
#
#   scripts/test-deb.sh [mariadb | mariadb-11.8]
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
case "$release" in
    mariadb) suite=bookworm series=10.11 ;;
    mariadb-11.8) suite=trixie series=11.8 ;;
    *)
        echo "test-deb.sh: there is no release $release (mariadb, mariadb-11.8)" >&2
        exit 2
        ;;
esac
fail() {
    printf 'test-deb.sh: %s\n' "$*" >&2
    exit 1
}
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "needs root or sudo"
    exec sudo --preserve-env=DEBIAN_MIRROR,DEBIAN_SECURITY_MIRROR \
        scripts/test-deb.sh "$@"
fi
# Mounts of a name space of its own end with it, also when this is killed.
if [ -z "${TACHO_TEST_DEB_INSIDE:-}" ]; then
    TACHO_TEST_DEB_INSIDE=1 exec unshare --mount scripts/test-deb.sh "$@"
fi

mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
packages=(
    "build/deb/tacho_${version}_$architecture.deb"
    "build/deb/mariadb-plugin-tacho_$version+mariadb${series}_$architecture.deb"
)

work=$(mktemp -d /var/tmp/tacho-deb.XXXXXX)
root=$work/root
server=
cleanup() {
    if [ -n "$server" ] && kill "$server" 2>/dev/null; then
        wait "$server" || true
    fi
    # The mounts first: what they show is not ours to remove.
    umount "$root/dev/shm" "$root/proc" 2>/dev/null || true
    if mountpoint -q "$root/proc"; then
        echo "test-deb.sh: $work is still in use; it stays" >&2
    else
        rm -rf --one-file-system "$work"
    fi
}
trap cleanup EXIT

echo "test-deb.sh: a clean Debian $suite"
mmdebstrap --quiet --variant=apt --mode=root --skip=cleanup/apt/lists "$suite" "$root" \
    "deb $mirror $suite main" "deb $security $suite-security main"
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=512m tmpfs "$root/dev/shm"
# The server is started here, not as a service.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp "${packages[@]}" "$root/tmp/"
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }

echo "test-deb.sh: installing the packages"
inside sh -c 'apt-get install -y -q --no-install-recommends /tmp/*.deb' </dev/null \
    >"$work/install.log" 2>&1 || {
    tail -30 "$work/install.log" >&2
    fail "the packages cannot be installed"
}
inside tacho --version
[ -s "$root/usr/share/man/man1/tacho-tail.1.gz" ] || fail "there is no manual page"

start() {
    inside mkdir -p /run/mysqld
    inside chown mysql: /run/mysqld
    chroot "$root" /usr/sbin/mariadbd --user=mysql --skip-networking \
        --pid-file=/run/mysqld/test.pid >"$work/server.log" 2>&1 &
    server=$!
    local attempt
    for attempt in $(seq 600); do
        if inside mariadb-admin ping >/dev/null 2>&1; then return; fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.2
    done
    cat "$work/server.log" >&2
    fail "the server does not come up ($attempt attempts)"
}
stop() {
    kill "$server"
    wait "$server" || fail "the server did not stop in the orderly way"
    server=
}
sql() { inside mariadb -Ne "$1"; }
# Through a file: a reader that has seen enough would break the pipe of one that writes.
read_log() { inside tacho tail --lines all --format json /var/lib/mysql/tacho >"$work/log"; }
has() {
    read_log
    grep -qF "$1" "$work/log" || fail "the log has no line with: $1"
}
load_option() {
    sql "SELECT load_option FROM information_schema.plugins WHERE plugin_name = 'tacho'"
}

echo "test-deb.sh: INSTALL SONAME in a server that runs"
start
option=$(load_option)
[ -z "$option" ] || fail "the plugin is loaded though its option file is commented out"
sql "INSTALL SONAME 'tacho'"
sql "SELECT 'after INSTALL SONAME'" >/dev/null
stop
has "SELECT 'after INSTALL SONAME'"

echo "test-deb.sh: the option file, without its comment signs"
start
sql "UNINSTALL SONAME 'tacho'" >/dev/null
stop
sed -i '/^#\(\[\|[a-z_]* = \)/s/^#//' "$root/etc/mysql/mariadb.conf.d/60-tacho.cnf"
start
sql "SELECT 'after a restart'" >/dev/null
option=$(load_option)
[ "$option" = FORCE_PLUS_PERMANENT ] || fail "the option file is not read"
stop
has "SELECT 'after a restart'"
key=$(sed -n '0,/"signing_key"/s/.*"signing_key":"\([^"]*\)".*/\1/p' "$work/log")
inside tacho verify --key "$key" /var/lib/mysql/tacho || fail "the log does not verify"

echo "test-deb.sh: removing them"
inside sh -c 'apt-get purge -y -qq tacho mariadb-plugin-tacho' </dev/null >"$work/purge.log" 2>&1 ||
    fail "they cannot be removed: $(tail -5 "$work/purge.log")"
[ ! -e "$root/etc/mysql/mariadb.conf.d/60-tacho.cnf" ] || fail "the option file is still there"
[ -d "$root/var/lib/mysql/tacho" ] || fail "the log went with the package"
start
stop
echo "test-deb.sh: passed ($suite, MariaDB $series)"
