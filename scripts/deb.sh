#!/usr/bin/env bash
# Packs what `make build` has built: build/deb/tacho_*.deb, the command with its manual pages, and
# build/deb/mariadb-plugin-tacho_*.deb, the plugin for one release of MariaDB.
#
#   scripts/deb.sh [mariadb | mariadb-11.8]
#
# dpkg-deb alone: debhelper would build everything a second time in a tree of its own, and
# cargo-deb knows nothing of the C++ half.
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
case "$release" in
    mariadb) series=10.11 next=10.12 ;;
    mariadb-11.8) series=11.8 next=11.9 ;;
    *)
        echo "deb.sh: there is no release $release (mariadb, mariadb-11.8)" >&2
        exit 2
        ;;
esac
for file in build/bin/tacho "build/$release/tacho.so"; do
    [ -f "$file" ] || {
        echo "deb.sh: $file is not built; run make build first" >&2
        exit 1
    }
done

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
maintainer="Tachograph <tacho@localhost>"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p build/deb

# What a package needs of the C library and its like, from the symbols that its file takes.
# dpkg-shlibdeps wants a source package around it.
needs() {
    mkdir -p "$work/source/debian"
    printf 'Source: tacho\n\nPackage: tacho\nArchitecture: any\n' >"$work/source/debian/control"
    (cd "$work/source" && dpkg-shlibdeps -O --ignore-missing-info "$1" 2>/dev/null) |
        sed -n 's/^shlibs:Depends=//p'
}

documents() {
    local package=$1 directory=$work/$1/usr/share/doc/$1
    mkdir -p "$directory"
    sed "s/@PACKAGE@/$package/" packaging/copyright >"$directory/copyright"
    cp LICENSE-MIT "$directory/"
    gzip -9nc CHANGELOG.md >"$directory/changelog.gz"
}

# pack NAME VERSION: $work/NAME with its DEBIAN/control, of which the caller has made the rest.
pack() {
    local name=$1 version=$2
    local control=$work/$name/DEBIAN/control
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' \
            "$name" "$version" "$architecture" "$maintainer"
        printf 'Installed-Size: %s\nSection: database\nPriority: optional\n' \
            "$(du -sk --exclude=DEBIAN "$work/$name" | cut -f1)"
        cat "$control"
    } >"$work/control"
    mv "$work/control" "$control"
    (cd "$work/$name" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' |
        sort -z | xargs -0 md5sum) >"$work/md5sums"
    mv "$work/md5sums" "$work/$name/DEBIAN/md5sums"
    find "$work/$name" -type d -exec chmod 755 {} +
    dpkg-deb --root-owner-group -Zxz --build "$work/$name" \
        "build/deb/${name}_${version}_$architecture.deb" >/dev/null
    echo "build/deb/${name}_${version}_$architecture.deb"
}

command_package() {
    local root=$work/tacho
    install -D -m 755 --strip build/bin/tacho "$root/usr/bin/tacho"
    # Off until somebody enables them.
    install -D -m 644 packaging/tacho-recorder.service packaging/tacho-syslog.service \
        -t "$root/usr/lib/systemd/system"
    mkdir -p "$root/DEBIAN" "$root/usr/share/man/man1"
    build/bin/tacho man --out "$root/usr/share/man/man1"
    gzip -9n "$root"/usr/share/man/man1/*.1
    for shell in bash:bash-completion/completions/tacho zsh:zsh/vendor-completions/_tacho \
        fish:fish/vendor_completions.d/tacho.fish; do
        mkdir -p "$(dirname "$root/usr/share/${shell#*:}")"
        build/bin/tacho completions "${shell%%:*}" >"$root/usr/share/${shell#*:}"
    done
    documents tacho
    gzip -9nc docs/guide/recorder.md >"$root/usr/share/doc/tacho/recorder.md.gz"
    cat >"$root/DEBIAN/control" <<CONTROL
Depends: $(needs "$root/usr/bin/tacho")
Recommends: tzdata
Suggests: mariadb-plugin-tacho, sysbench, bpftrace
Description: reads, checks and converts the audit log of Tachograph
 Tachograph records what happens in a MariaDB server, without losing anything silently. This is
 its command: it shows and follows the log, verifies its seal, converts it for other programs,
 recovers what a dead server had not written, writes the log in the place of the server if that
 is wanted (tacho-recorder.service), measures what auditing costs, and shows where the threads of
 a server spend their time.
CONTROL
    pack tacho "$version"
}

plugin_package() {
    local name=mariadb-plugin-tacho
    local root=$work/$name
    # The directory of Debian's servers; not that of a server that happens to be installed here.
    install -D -m 644 "build/$release/tacho.so" "$root/usr/lib/mysql/plugin/tacho.so"
    strip --strip-debug "$root/usr/lib/mysql/plugin/tacho.so"
    install -D -m 644 packaging/tacho.cnf "$root/etc/mysql/mariadb.conf.d/60-tacho.cnf"
    install -D -m 644 packaging/tacho-priority.conf \
        "$root/usr/lib/systemd/system/mariadb.service.d/tacho-priority.conf"
    mkdir -p "$root/DEBIAN"
    echo /etc/mysql/mariadb.conf.d/60-tacho.cnf >"$root/DEBIAN/conffiles"
    documents "$name"
    gzip -9nc docs/guide/settings.md >"$root/usr/share/doc/$name/settings.md.gz"
    cat >"$root/DEBIAN/control" <<CONTROL
Depends: $(needs "$root/usr/lib/mysql/plugin/tacho.so"), mariadb-server (>= 1:$series), mariadb-server (<< 1:$next~)
Recommends: tacho
Enhances: mariadb-server
Description: audit recorder for MariaDB $series that loses nothing silently
 A plugin for MariaDB $series. It records every statement, connection and error: the text before
 the statement runs, its outcome after. Query threads only copy into shared memory, which
 survives the death of the server; a thread of its own writes JSON lines, sealed by a hash chain.
 .
 It is not loaded by installing it: INSTALL SONAME 'tacho', or the option file
 /etc/mysql/mariadb.conf.d/60-tacho.cnf.
CONTROL
    pack "$name" "$version+mariadb$series"
}

command_package
plugin_package
