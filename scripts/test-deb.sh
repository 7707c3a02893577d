#!/usr/bin/env bash
# Installs the packages of scripts/deb.sh into a clean Debian, reads manual pages and completions as
# a user does, starts its server, records a statement, ships the log to the hub, and purges the
# packages. Needs root, for the chroot, and some 900 MB for a while.
#
#   scripts/test-deb.sh [mariadb | mariadb-11.8 | mysql-9.7 | mysql-8.0]
#
# Debian has no MySQL 8.0: there the binaries of scripts/setup-mysql.sh are packed under the name
# that Oracle's own package has, and installed with ours.
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
case "$release" in
    mariadb) suite=bookworm family=mariadb series=10.11 ;;
    mariadb-11.8) suite=trixie family=mariadb series=11.8 ;;
    mysql-9.7) suite=sid family=mysql series=9.7 ;;
    mysql-8.0) suite=bookworm family=mysql series=8.0 ;;
    *)
        echo "test-deb.sh: there is no release $release (mariadb, mariadb-11.8, mysql-9.7, mysql-8.0)" >&2
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
# The mounts of a separate name space end with it, even if this is killed.
if [ -z "${TACHO_TEST_DEB_INSIDE:-}" ]; then
    TACHO_TEST_DEB_INSIDE=1 exec unshare --mount scripts/test-deb.sh "$@"
fi

version=$(scripts/version.sh)
architecture=$(dpkg --print-architecture)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
# The names that differ. The server remembers a component; a plugin is in the option file.
sources=("deb $mirror $suite main")
# man, completions and systemd-analyze, to check these files of the packages.
kind=plugin needed=(bash-completion man-db systemd)
if [ "$family" = mariadb ]; then
    package=mariadb-plugin-tacho options=/etc/mysql/mariadb.conf.d/60-tacho.cnf
    daemon=mariadbd client=mariadb admin=mariadb-admin
    install="INSTALL SONAME 'tacho'" uninstall="UNINSTALL SONAME 'tacho'"
    sources+=("deb $security $suite-security main")
else
    options=/etc/mysql/mysql.conf.d/60-tacho.cnf
    daemon=mysqld client=mysql admin=mysqladmin
    if [ "$release" = mysql-8.0 ]; then
        package=mysql-plugin-tacho
        install="INSTALL PLUGIN tacho SONAME 'tacho.so'" uninstall="UNINSTALL PLUGIN tacho"
    else
        package=mysql-component-tacho kind=component
        # The data directory and the option files are those of the whole server.
        needed+=(mysql-server)
        install="INSTALL COMPONENT 'file://component_tacho'"
        uninstall="UNINSTALL COMPONENT 'file://component_tacho'"
    fi
fi
packages=(
    "build/deb/tacho_${version}_$architecture.deb"
    "build/deb/tacho-hub_${version}_$architecture.deb"
    "build/deb/${package}_$version+$family${series}_$architecture.deb"
)
lintian --no-cfg --allow-root --fail-on error,warning "${packages[@]}" ||
    fail "lintian has something to say about the packages"


work=$(mktemp -d /var/tmp/tacho-deb.XXXXXX)
root=$work/root
# shellcheck source=scripts/test-deb-hub.sh
. scripts/test-deb-hub.sh
server=
cleanup() {
    local process
    for process in $server $hub; do
        if kill "$process" 2>/dev/null; then
            wait "$process" || true
        fi
    done
    # The mounts first: their contents must not be removed.
    umount "$root/dev/shm" "$root/proc" 2>/dev/null || true
    if mountpoint -q "$root/proc"; then
        echo "test-deb.sh: $work is still in use; it stays" >&2
    else
        rm -rf --one-file-system "$work"
    fi
}
trap cleanup EXIT

echo "test-deb.sh: a clean Debian $suite"
# A machine that uses a package snapshot needs this option; the lists of sid expire in a week.
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

# pack_server FOLDER: the files that scripts/setup-mysql.sh has fetched as Oracle's package of a
# server, with its paths, and the work of Debian's scripts: the user, option files, a data
# directory.
pack_server() {
    local from=$1/usr to=$work/server number
    number=$("$from/bin/mysqld" --no-defaults --version | sed -n 's/.* Ver \([0-9.]*\) .*/\1/p')
    mkdir -p "$to"/DEBIAN "$to"/usr/{sbin,bin,lib/mysql,share} "$to"/etc/mysql/mysql.conf.d
    cp "$from/bin/mysqld" "$to/usr/sbin/"
    cp "$from"/bin/{mysql,mysqladmin} "$to/usr/bin/"
    cp -r "$from/lib/private" "$to/usr/lib/"
    cp -r "$from/lib/mysql/plugin" "$to/usr/lib/mysql/"
    cp -r "$from/share" "$to/usr/share/mysql-$series"
    cat >"$to/etc/mysql/my.cnf" <<OPTIONS
[mysqld]
basedir = /usr
datadir = /var/lib/mysql
plugin_dir = /usr/lib/mysql/plugin
lc_messages_dir = /usr/share/mysql-$series
character_sets_dir = /usr/share/mysql-$series/charsets
socket = /run/mysqld/mysqld.sock
# Its port would be that of other servers on this machine.
mysqlx = OFF
[client]
socket = /run/mysqld/mysqld.sock
!includedir /etc/mysql/mysql.conf.d/
OPTIONS
    cat >"$to/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
getent passwd mysql >/dev/null || useradd --system --home-dir /var/lib/mysql mysql
[ -d /var/lib/mysql ] || mysqld --no-defaults --basedir=/usr --datadir=/var/lib/mysql \
    --lc-messages-dir="$(echo /usr/share/mysql-*)" --user=mysql --initialize-insecure
install -d -o mysql -g adm -m 2750 /var/log/mysql
SCRIPT
    chmod 755 "$to/DEBIAN/postinst"
    cat >"$to/DEBIAN/control" <<CONTROL
Package: mysql-community-server-core
Version: $number-1debian12
Architecture: $architecture
Maintainer: Tachograph <tacho@localhost>
Depends: libaio1, libncurses6, libnuma1, libstdc++6, passwd
Description: MySQL $number, packed for a test
CONTROL
    # It lives for minutes: no time for making it small.
    dpkg-deb --root-owner-group -Znone --build "$to" "$root/tmp/server.deb" >/dev/null
    rm -rf "$to"
}
if [ "$release" = mysql-8.0 ]; then
    pack_server "$(scripts/setup-mysql.sh "$release")"
fi
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }

echo "test-deb.sh: installing the packages"
# shellcheck disable=SC2016
inside sh -c 'apt-get install -y -q --no-install-recommends "$@" /tmp/*.deb' sh "${needed[@]}" \
    </dev/null >"$work/install.log" 2>&1 || {
    tail -30 "$work/install.log" >&2
    fail "the packages cannot be installed"
}
inside tacho --version
inside tacho-hub --version
for documents in tacho tacho-hub; do
    scripts/check-links.py "$root/usr/share/doc/$documents" || fail "a guide has a dead link"
done

# Without root, and without the environment of this script.
as_user() { chroot --userspec=nobody:nogroup "$root" env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"; }
manual_pages() {
    local file page count=0
    for file in "$root"/usr/share/man/man1/tacho*.1.gz; do
        page=$(basename "$file" .1.gz) count=$((count + 1))
        as_user man --warnings "$page" >"$work/page" 2>"$work/warnings" ||
            fail "man $page fails: $(cat "$work/warnings")"
        [ ! -s "$work/warnings" ] || fail "man $page warns: $(cat "$work/warnings")"
        grep -q "^ *$page  *-  *" "$work/page" || fail "man $page shows another page"
        as_user whatis "$page" >/dev/null || fail "whatis does not know $page"
    done
    [ "$count" -gt 25 ] || fail "there are $count manual pages"
}
# As bash calls it when a user presses the tab key after the name of the command and WORD.
# completes COMMAND FUNCTION WORD WANTED
completes() {
    local found
    # shellcheck disable=SC2016
    found=$(as_user bash -c '. /usr/share/bash-completion/bash_completion
        _comp_load "$1" 2>/dev/null || _completion_loader "$1"
        COMP_WORDS=("$1" "$3") COMP_CWORD=1
        "$2" "$1" "$3" "$1"
        echo "${COMPREPLY[*]}"' bash "$1" "$2" "$3")
    [ "$found" = "$4" ] || fail "bash completes \"$1 $3\" with: $found"
}
completions() {
    completes tacho _tacho ta tail
    completes tacho-hub _tacho__hub rein reindex
}
units() {
    local unit problems names=(tacho-capture tacho-recorder tacho-ship tacho-syslog tacho-hub)
    # With its drop-in. The package that this script makes of MySQL 8.0 has no unit.
    [ "$release" = mysql-8.0 ] || names+=("$family")
    for unit in "${names[@]}"; do
        problems=$(inside systemd-analyze verify "$unit.service" 2>&1) || fail "$unit.service: $problems"
        [ -z "$problems" ] || fail "$unit.service: $problems"
    done
}

echo "test-deb.sh: what a user sees"
as_user tacho --help >"$work/help" || fail "tacho --help fails"
grep -q '^Usage: tacho' "$work/help" || fail "tacho --help shows no usage"
as_user cat /usr/share/doc/tacho/docs/guide/install.md >/dev/null || fail "a user cannot read the guide"
manual_pages
completions
units

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
# The previous directory of the log.
log=/var/lib/mysql/tacho
# Through a file: a reader that has seen enough would break the pipe of one that writes.
read_log() { inside tacho tail --lines all --format json "$log" >"$work/log"; }
has() {
    read_log
    grep -qF "$1" "$work/log" || fail "the log has no line with: $1"
}

echo "test-deb.sh: $install in a server that runs"
start
if [ "$kind" = plugin ]; then
    # The settings in the option file.
    loaded() { sql "SELECT load_option FROM information_schema.plugins WHERE plugin_name = 'tacho'"; }
    wanted=FORCE_PLUS_PERMANENT
else
    loaded() { sql "SHOW GLOBAL VARIABLES LIKE 'tacho.overflow'" | cut -f2; }
    wanted=DROP
fi
[ -z "$(loaded)" ] || fail "it is loaded although it was not installed"
sql "$install"
sql "SELECT 'after INSTALL'" >/dev/null
stop
has "SELECT 'after INSTALL'"

echo "test-deb.sh: the option file, without its comment signs"
if [ "$kind" = plugin ]; then
    start
    sql "$uninstall" >/dev/null
    stop
fi
sed -i '/^#\(\[\|[a-z_.]* = \)/s/^#//; s/overflow = BLOCK/overflow = DROP/' "$root$options"
if [ "$family" = mysql ]; then
    # As in docs/guide/rewrite.md.
    log=/var/log/mysql/tacho
    inside mv /var/lib/mysql/tacho "$log"
fi
start
sql "SELECT 'after a restart'" >/dev/null
[ "$(loaded)" = "$wanted" ] || fail "the option file is not read: $(loaded)"
if [ "$family" = mysql ]; then
    echo "test-deb.sh: a rule that rewrites"
    inside sh -c "$client </usr/share/tacho/rewrite_rules.sql"
    sql "INSERT INTO tacho.rewrite_rules (pattern, replacement) VALUES ('SELECT ?', 'SELECT ? + 1')"
    sql "CALL tacho.load_rewrite_rules()"
    [ "$(sql 'SELECT 41')" = 42 ] || fail "a statement is not rewritten"
    sql "DELETE FROM tacho.rewrite_rules"
    sql "CALL tacho.load_rewrite_rules()"
    [ "$(sql 'SELECT 41')" = 41 ] || fail "a rule that is gone is in force"
fi
stop
has "SELECT 'after a restart'"
key=$(sed -n '0,/"signing_key"/s/.*"signing_key":"\([^"]*\)".*/\1/p' "$work/log")
inside tacho verify --key "$key" "$log" || fail "the log does not verify"

echo "test-deb.sh: the hub"
test_hub "$log"

echo "test-deb.sh: removing them"
if [ "$kind" = component ]; then
    start
    sql "$uninstall"
    stop
fi
# The log and the key, with their contents.
kept() { (cd "$root" && find ".$log" var/lib/mysql/tacho-signing.key var/lib/tacho-hub/replica -type f -exec sha256sum {} + | sort -k 2); }
# Everything that a unit has in /etc/systemd is a link.
enabled() { find "$root/etc/systemd" -name 'tacho-*'; }
inside systemctl --quiet enable tacho-capture tacho-recorder tacho-ship tacho-syslog tacho-hub
[ "$(enabled | wc -l)" -eq 5 ] || fail "the units cannot be enabled"
kept >"$work/before"
inside apt-get purge -y -qq tacho tacho-hub "$package" </dev/null >"$work/purge.log" 2>&1 ||
    fail "they cannot be removed: $(tail -5 "$work/purge.log")"
[ ! -e "$root$options" ] || fail "the option file is still there"
[ -z "$(enabled)" ] || fail "links of units are left: $(enabled)"
kept | diff "$work/before" - >&2 || fail "the log or the key changed with the package"
start
stop
echo "test-deb.sh: passed ($suite, $family $series)"
