#!/usr/bin/env bash
# Fetches MariaDB 11.8 from Debian trixie into a folder of its own: server, headers, its test
# framework, and the C library that they need. Nothing on this machine changes but that folder. apt checks signatures
# and sums. Run it as often as you like; prints the folder.
set -euo pipefail

suite=trixie
packages=(mariadb-server libmariadbd-dev mariadb-test)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}

root="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/mariadb-11.8"
# Its name changes when more is fetched: then a folder without that is made anew.
complete=$root/complete-with-tests

say() { printf 'setup-mariadb-11.8: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

if [ -e "$complete" ]; then
    echo "$root"
    exit 0
fi
for program in apt-get dpkg-deb gcc patchelf; do
    command -v "$program" >/dev/null || fail "needs $program (scripts/setup.sh test installs it)"
done
[ -r "$keyring" ] || fail "needs $keyring (package debian-archive-keyring)"

# One at a time: tests of several clones share the folder.
mkdir -p "${root%/*}"
exec 9>"$root.lock"
flock 9
if [ -e "$complete" ]; then
    echo "$root"
    exit 0
fi
work=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$work"' EXIT

# An apt of its own: its sources, its lists, and no package installed.
apt=$work/apt
mkdir -p "$apt"/etc/apt/{apt.conf.d,preferences.d,sources.list.d} \
    "$apt"/var/lib/{dpkg,apt/lists/partial} "$apt"/var/cache/apt/archives/partial
: >"$apt/var/lib/dpkg/status"
cat >"$apt/etc/apt/sources.list" <<SOURCES
deb [signed-by=$keyring] $mirror $suite main
deb [signed-by=$keyring] $security $suite-security main
SOURCES
options=(
    -o "Dir=$apt" -o "Dir::State::status=$apt/var/lib/dpkg/status"
    # What this machine's own configuration says of proxies holds here, too.
    -o "Dir::Etc::parts=/etc/apt/apt.conf.d"
    -o "APT::Architecture=$(dpkg --print-architecture)"
    -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Acquire::Languages=none
)
say "reading the packages of Debian $suite"
apt-get "${options[@]}" -qq update >&2
say "fetching ${packages[*]} and what they need (110 MB or so)"
apt-get "${options[@]}" -qq -y --download-only install "${packages[@]}" >&2

say "unpacking"
mkdir "$work/root"
# Debian's folders of old are links into /usr; a package may have files in either.
for directory in bin sbin lib lib64; do
    mkdir -p "$work/root/usr/$directory"
    ln -s "usr/$directory" "$work/root/$directory"
done
for package in "$apt"/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$work/root" \
        --no-same-owner --exclude='./dev/*' --exclude='./usr/share/doc/*' --exclude='./usr/share/locale/*'
done
rm -rf "$apt"

# Its programs shall run here, with its own C library, under their own names.
machine=$(gcc -print-multiarch)
loader=$(readlink -f "$work/root/lib64/ld-linux-x86-64.so.2")
loader=$root${loader#"$work/root"}
while read -r file; do
    # Scripts stay as they are.
    [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
    patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$root/usr/lib/$machine" "$file"
done < <(find "$work/root/usr/bin" "$work/root/usr/sbin" "$work/root/usr/share/mariadb" \
    -type f -executable \( -name 'maria*' -o -name 'my_*' -o -name resolveip \))

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
