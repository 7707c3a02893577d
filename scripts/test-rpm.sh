#!/usr/bin/env bash
# Makes a signed repository of the packages of scripts/rpm.sh, installs them from it by dnf into a
# clean system with RHEL's names and paths, starts the server there, records, upgrades, and removes
# them. Needs root, for the chroot, and some 900 MB for a while.
#
#   scripts/test-rpm.sh [mariadb | mariadb-11.8 | mysql-9.7 | mysql-8.0]
#
# The system is not RHEL: it is a Debian with stand-ins for RHEL's packages (test-rpm-standins.sh).
# They provide the C and C++ library of RHEL 9 and no newer one, so dnf refuses a package that needs
# more. The server is Debian's, or that of scripts/setup-mysql.sh, at RHEL's paths.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/packages.sh
. scripts/packages.sh

release=${1:-mariadb}
release_facts "$release"
fail() {
    printf 'test-rpm.sh: %s\n' "$*" >&2
    exit 1
}
say() { printf 'test-rpm.sh: %s\n' "$*"; }
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "needs root or sudo"
    exec sudo --preserve-env=DEBIAN_MIRROR,DEBIAN_SECURITY_MIRROR scripts/test-rpm.sh "$@"
fi
# The mounts of a separate name space end with it, even if this is killed.
if [ -z "${TACHO_TEST_RPM_INSIDE:-}" ]; then
    TACHO_TEST_RPM_INSIDE=1 exec unshare --mount scripts/test-rpm.sh "$@"
fi

mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=bookworm unit=mysqld daemon=mysqld client=mysql
plugins=/usr/lib64/$family/plugin options_file=/etc/my.cnf.d/tacho.cnf
case "$release" in
    mariadb*)
        unit=mariadb daemon=mariadbd client=mariadb
        needed=(mariadb-server-core mariadb-client-core)
        [ "$release" = mariadb ] || suite=trixie
        ;;
    mysql-8.0) needed=(libaio1 libnuma1 libncurses6) ;;
    *) suite=sid needed=(mysql-server-core mysql-client-core) ;;
esac
version=$(scripts/version.sh)

work=$(mktemp -d /var/tmp/tacho-rpm.XXXXXX)
root=$work/root
export GNUPGHOME=$work/gnupg
# shellcheck source=scripts/test-deb-hub.sh
. scripts/test-deb-hub.sh
# shellcheck source=scripts/test-rpm-standins.sh
. scripts/test-rpm-standins.sh
server=
cleanup() {
    local process
    for process in $server $hub; do
        if kill "$process" 2>/dev/null; then
            wait "$process" || true
        fi
    done
    gpgconf --kill all 2>/dev/null || true
    # The mounts first: their contents must not be removed.
    umount "$root/dev/shm" "$root/proc" 2>/dev/null || true
    if mountpoint -q "$root/proc"; then
        say "$work is still in use; it stays" >&2
    else
        rm -rf --one-file-system "$work"
    fi
}
trap cleanup EXIT
inside() { chroot "$root" env LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }

make_root() {
    local valid_until
    valid_until=$(apt-config dump Acquire::Check-Valid-Until)
    mmdebstrap --quiet --variant=minbase --mode=root --include="$(
        IFS=,
        echo "systemd,libstdc++6,passwd,${needed[*]}"
    )" ${valid_until:+"--aptopt=$valid_until"} "$suite" "$root" "deb $mirror $suite main"
    # What Debian's packages have at places where RHEL's are.
    rm -f "$root"/etc/my.cnf "$root"/usr/lib/systemd/system/{mariadb,mysql}*.service
    mount -t proc proc "$root/proc"
    mkdir -p "$root/dev/shm"
    mount -t tmpfs -o mode=1777,size=512m tmpfs "$root/dev/shm"
}

# make_repository RELEASE: the packages with this number, in the repository that dnf reads.
make_repository() {
    rm -rf "$work/rpm"
    # It lives for minutes: no time for making it small.
    TACHO_RPM_DIRECTORY=$work/rpm TACHO_RPM_RELEASE=$1 TACHO_RPM_PAYLOAD=w1.zstdio \
        scripts/rpm.sh "$release" >"$work/built"
    TACHO_RPM_DIRECTORY=$work/rpm TACHO_RPM_REPO=$work/repo \
        scripts/repo-rpm.sh repo@tachograph.test >"$work/said"
}

# As an administrator does on RHEL, with the configuration of docs/guide/packages.md.
configure_dnf() {
    mkdir -p "$work/repos"
    cat >"$work/repos/tachograph.repo" <<REPO
[tachograph]
name=Tachograph
baseurl=file://$work/repo/el9/$family$series
gpgcheck=1
repo_gpgcheck=1
gpgkey=file://$work/repo/tachograph.asc
[standins]
name=stand-ins
baseurl=file://$work/standins
gpgcheck=0
REPO
    printf '%s\n' '[main]' "reposdir=$work/repos" "cachedir=$work/cache" "logdir=$work/dnf" \
        "persistdir=$work/dnf" plugins=0 best=1 metadata_expire=0 >"$work/dnf.conf"
}
run_dnf() {
    dnf --config "$work/dnf.conf" --quiet --assumeyes --installroot "$root" --releasever 9 \
        "$@" >"$work/dnf.log" 2>&1
}
must_dnf() { run_dnf "$@" || fail "dnf $1 fails: $(tail -n 20 "$work/dnf.log")"; }
query() { rpm --root "$root" "$@"; }

say "a clean system with stand-ins for RHEL's packages"
make_root
mkdir -m 700 "$GNUPGHOME"
gpg --batch --quiet --passphrase '' --quick-generate-key repo@tachograph.test rsa3072 sign never
base_standin
server_standin
createrepo_c --quiet "$work/standins"
make_repository 1
configure_dnf
rpmlint --config packaging/rpm/rpmlint.toml "$work"/rpm/*.rpm >"$work/rpmlint" 2>&1 || {
    cat "$work/rpmlint" >&2
    fail "rpmlint has something to say about the packages"
}

say "installing the packages from a signed repository"
# What is installed for others only would be removed with them.
must_dnf install base-stand-in "$family-server"
must_dnf install tacho tacho-hub "$package"
# shellcheck source=scripts/test-rpm-checks.sh
. scripts/test-rpm-checks.sh
check_files
check_accounts_and_units
check_recording
say "an upgrade while the server runs"
check_upgrade
say "the hub"
test_hub "$log"
say "removing them"
check_removal
say "a repository that was changed"
check_changed_repository
say "passed ($release on stand-ins for RHEL 9)"
