#!/usr/bin/env bash
# Packs what `make build` has built: build/deb/tacho_*.deb, the command with its manual pages,
# build/deb/tacho-hub_*.deb, the hub, and what goes into one release of a server:
# build/deb/mariadb-plugin-tacho_*.deb,
# build/deb/mysql-component-tacho_*.deb, or build/deb/mysql-plugin-tacho_*.deb.
#
#   scripts/deb.sh [mariadb | mariadb-11.8 | mysql-9.7 | mysql-8.0]
#
# Uses only dpkg-deb: debhelper would build everything a second time in its own tree, and cargo-deb
# does not support the C++ half.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/stage.sh
. scripts/stage.sh
# shellcheck source=scripts/packages.sh
. scripts/packages.sh
umask 022

release=${1:-mariadb}
release_facts "$release"
library=build/$release/$library
need_built build/bin/tacho build/bin/tacho-hub build/bin/libduckdb.so "$library"

version=$(scripts/version.sh)
architecture=$(dpkg --print-architecture)
# The variables of Debian's tools: name and address of the distributor of the packages.
maintainer="${DEBFULLNAME:-Tachograph} <${DEBEMAIL:-tacho@example.org}>"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p build/deb

# The package's dependencies on the C library and similar ones, from the symbols that its file uses.
# dpkg-shlibdeps requires a source package.
needs() {
    mkdir -p "$work/source/debian"
    printf 'Source: tacho\n\nPackage: tacho\nArchitecture: any\n' >"$work/source/debian/control"
    (cd "$work/source" && dpkg-shlibdeps -O --ignore-missing-info "$1" 2>/dev/null) |
        sed -n 's/^shlibs:Depends=//p'
}

# documents NAME VERSION: the files that Debian requires in each package. Its changelog has its own
# format.
documents() {
    local name=$1 version=$2 directory=$work/$1/usr/share/doc/$1
    mkdir -p "$directory"
    cp packaging/copyright "$directory/copyright"
    printf '%s (%s) unstable; urgency=medium\n\n  * See %s.\n\n -- %s  %s\n' "$name" "$version" \
        /usr/share/doc/tacho/CHANGELOG.md "$maintainer" \
        "$(LC_ALL=C date -Ru -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}")" |
        gzip -9nc >"$directory/changelog.gz"
    chmod 644 "$directory"/*
}

# described NAME [OPTION_FILE]: the field Description of its control file.
described() { description "$1" "${2:-}" | sed '1s/^/Description: /; 2,$s/^$/./; 2,$s/^/ /'; }

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

# scripts_of NAME FROM: the maintainer scripts packaging/debian/FROM.*, as those of the package NAME.
scripts_of() {
    local file
    for file in packaging/debian/"$2".*; do
        install -D -m 755 "$file" "$work/$1/DEBIAN/${file##*.}"
    done
}

command_package() {
    local root=$work/tacho
    stage_command "$root" /usr vendor-completions
    scripts_of tacho tacho
    documents tacho "$version"
    cat >"$root/DEBIAN/control" <<CONTROL
Depends: $(needs "$root/usr/bin/tacho")
Recommends: tzdata
Suggests: mariadb-plugin-tacho | mysql-component-tacho | mysql-plugin-tacho, sysbench, bpftrace
$(described tacho)
CONTROL
    pack tacho "$version"
}

# The hub, with the library of DuckDB that its query processes load.
hub_package() {
    local root=$work/tacho-hub
    stage_hub "$root" /usr vendor-completions
    scripts_of tacho-hub hub
    documents tacho-hub "$version"
    # libduckdb.so is built by its own project and is not linked, so its dependencies are not those
    # of the program: it needs the C++ library.
    cat >"$root/DEBIAN/control" <<CONTROL
Depends: $(needs "$root/usr/bin/tacho-hub"), libstdc++6, adduser
Suggests: tacho
$(described tacho-hub)
CONTROL
    pack tacho-hub "$version"
}

# server_package DIRECTORY DEPENDS: the files for a server: library, option file in this directory,
# and the drop-in of its unit for the writer's priority.
server_package() {
    local name=$package file=$1/60-tacho.cnf depends=$2
    local root=$work/$name
    # The directory of Debian's servers; not that of a server that happens to be installed here.
    local plugins=/usr/lib/mysql/plugin
    local installed=$root$plugins/${library##*/}
    stage_library "$library" "$root" "$plugins"
    stage_server "$root" /usr "$family" "$family"
    install -D -m 644 "packaging/$options" "$root$file"
    scripts_of "$name" server
    echo "$file" >"$root/DEBIAN/conffiles"
    documents "$name" "$version+$family$series"
    {
        echo "Depends: $(needs "$installed"), $depends"
        printf 'Recommends: tacho\nEnhances: %s-server\n' "$family"
        described "$name" "$file"
    } >"$root/DEBIAN/control"
    pack "$name" "$version+$family$series"
}

# either NAME...: one of these packages, of this series.
either() {
    local bound bounds=() name choices
    for bound in ">= $series~" "<< $next~"; do
        choices=
        for name in "$@"; do choices+="${choices:+ | }$name ($bound)"; done
        bounds+=("$choices")
    done
    echo "${bounds[0]}, ${bounds[1]}"
}

# Debian's and MySQL's own packages of a server have different names.
mysql_package() {
    local core=mysql-server-core overrides=$work/$package/usr/share/lintian/overrides
    if [ "$release" = mysql-8.0 ]; then
        core=mysql-server-core-8.0
    else
        # In Debian the package of this name is a MySQL again since 9.7; lintian takes it for an old
        # one.
        install -d "$overrides"
        echo "$package: depends-on-obsolete-package Depends: $core *" >"$overrides/$package"
    fi
    server_package /etc/mysql/mysql.conf.d "$(either "$core" mysql-community-server-core)"
}

command_package
hub_package
case "$family" in
    mariadb)
        server_package /etc/mysql/mariadb.conf.d \
            "mariadb-server (>= 1:$series), mariadb-server (<< 1:$next~)"
        ;;
    mysql) mysql_package ;;
esac
