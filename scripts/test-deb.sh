#!/usr/bin/env bash
# Installs the packages of scripts/deb.sh into a clean Debian, starts its server and records a
# statement. Needs root, for the chroot, and some 700 MB for a while.
#
#   scripts/test-deb.sh [mariadb | mariadb-11.8 | mysql-9.7]
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
case "$release" in
    mariadb) suite=bookworm family=mariadb series=10.11 ;;
    mariadb-11.8) suite=trixie family=mariadb series=11.8 ;;
    mysql-9.7) suite=sid family=mysql series=9.7 ;;
    *)
        echo "test-deb.sh: there is no release $release (mariadb, mariadb-11.8, mysql-9.7)" >&2
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
# What is called differently. A component is remembered by the server, a plugin in the option file.
sources=("deb $mirror $suite main")
if [ "$family" = mariadb ]; then
    package=mariadb-plugin-tacho options=/etc/mysql/mariadb.conf.d/60-tacho.cnf
    daemon=mariadbd client=mariadb admin=mariadb-admin needed=()
    install="INSTALL SONAME 'tacho'" uninstall="UNINSTALL SONAME 'tacho'"
    sources+=("deb $security $suite-security main")
else
    package=mysql-component-tacho options=/etc/mysql/mysql.conf.d/60-tacho.cnf
    # The data directory and the option files are those of the whole server.
    daemon=mysqld client=mysql admin=mysqladmin needed=(mysql-server)
    install="INSTALL COMPONENT 'file://component_tacho'"
    uninstall="UNINSTALL COMPONENT 'file://component_tacho'"
fi
packages=(
    "build/deb/tacho_${version}_$architecture.deb"
    "build/deb/${package}_$version+$family${series}_$architecture.deb"
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
# A machine that takes packages from a snapshot says so; the lists of sid expire in a week.
valid_until=$(apt-config dump Acquire::Check-Valid-Until)
mmdebstrap --quiet --variant=apt --mode=root --skip=cleanup/apt/lists \
    ${valid_until:+"--aptopt=$valid_until"} "$suite" "$root" "${sources[@]}"
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=512m tmpfs "$root/dev/shm"
# The server is started here, not as a service.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp "${packages[@]}" "$root/tmp/"
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }

echo "test-deb.sh: installing the packages"
# shellcheck disable=SC2016
inside sh -c 'apt-get install -y -q --no-install-recommends "$@" /tmp/*.deb' sh "${needed[@]}" \
    </dev/null >"$work/install.log" 2>&1 || {
    tail -30 "$work/install.log" >&2
    fail "the packages cannot be installed"
}
inside tacho --version
[ -s "$root/usr/share/man/man1/tacho-tail.1.gz" ] || fail "there is no manual page"

start() {
    inside mkdir -p /run/mysqld
    inside chown mysql: /run/mysqld
    chroot "$root" "/usr/sbin/$daemon" --user=mysql --skip-networking \
        --pid-file=/run/mysqld/test.pid >"$work/server.log" 2>&1 &
    server=$!
    local attempt
    for attempt in $(seq 600); do
        if inside "$admin" ping >/dev/null 2>&1; then return; fi
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
sql() { inside "$client" -Ne "$1"; }
# Through a file: a reader that has seen enough would break the pipe of one that writes.
read_log() { inside tacho tail --lines all --format json /var/lib/mysql/tacho >"$work/log"; }
has() {
    read_log
    grep -qF "$1" "$work/log" || fail "the log has no line with: $1"
}

echo "test-deb.sh: $install in a server that runs"
start
if [ "$family" = mariadb ]; then
    # What the option file says, where it is used.
    loaded() { sql "SELECT load_option FROM information_schema.plugins WHERE plugin_name = 'tacho'"; }
    wanted=FORCE_PLUS_PERMANENT
else
    loaded() { sql "SHOW GLOBAL VARIABLES LIKE 'tacho.overflow'" | cut -f2; }
    wanted=DROP
fi
[ -z "$(loaded)" ] || fail "it is loaded though nobody has installed it"
sql "$install"
sql "SELECT 'after INSTALL'" >/dev/null
stop
has "SELECT 'after INSTALL'"

echo "test-deb.sh: the option file, without its comment signs"
if [ "$family" = mariadb ]; then
    start
    sql "$uninstall" >/dev/null
    stop
fi
sed -i '/^#\(\[\|[a-z_.]* = \)/s/^#//; s/overflow = BLOCK/overflow = DROP/' "$root$options"
start
sql "SELECT 'after a restart'" >/dev/null
[ "$(loaded)" = "$wanted" ] || fail "the option file is not read: $(loaded)"
stop
has "SELECT 'after a restart'"
key=$(sed -n '0,/"signing_key"/s/.*"signing_key":"\([^"]*\)".*/\1/p' "$work/log")
inside tacho verify --key "$key" /var/lib/mysql/tacho || fail "the log does not verify"

echo "test-deb.sh: removing them"
if [ "$family" = mysql ]; then
    start
    sql "$uninstall"
    stop
fi
inside apt-get purge -y -qq tacho "$package" </dev/null >"$work/purge.log" 2>&1 ||
    fail "they cannot be removed: $(tail -5 "$work/purge.log")"
[ ! -e "$root$options" ] || fail "the option file is still there"
[ -d "$root/var/lib/mysql/tacho" ] || fail "the log went with the package"
start
stop
echo "test-deb.sh: passed ($suite, $family $series)"
