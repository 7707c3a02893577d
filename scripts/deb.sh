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
umask 022

release=${1:-mariadb}
case "$release" in
    mariadb) family=mariadb series=10.11 next=10.12 library=tacho.so ;;
    mariadb-11.8) family=mariadb series=11.8 next=11.9 library=tacho.so ;;
    mysql-9.7) family=mysql series=9.7 next=9.8 library=component_tacho.so ;;
    mysql-8.0) family=mysql series=8.0 next=8.1 library=tacho.so ;;
    *)
        echo "deb.sh: there is no release $release (mariadb, mariadb-11.8, mysql-9.7, mysql-8.0)" >&2
        exit 2
        ;;
esac
library=build/$release/$library
for file in build/bin/tacho build/bin/tacho-hub build/bin/libduckdb.so "$library"; do
    [ -f "$file" ] || {
        echo "deb.sh: $file is not built; run make build first" >&2
        exit 1
    }
done

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
Description: reads, checks and converts the audit log of Tachograph
 Tachograph records what happens in a MariaDB or MySQL server, without
 losing anything silently. This is its command: it shows and follows the
 log, verifies its seal, converts it for other programs, recovers what a
 dead server had not written, writes the log in the place of the server if
 that is wanted (tacho-recorder.service), measures what auditing costs, and
 shows where the threads of a server spend their time.
 .
 The guides of command and plugins are in /usr/share/doc/tacho.
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
Description: central service for the audit logs of Tachograph
 Receives the sealed audit logs of many MariaDB and MySQL servers from
 "tacho ship", keeps them byte by byte, verifies them while they arrive,
 and makes them searchable in a web UI, by an HTTP API and in SQL.
 .
 The service listens on the loopback address until another one is set in
 /etc/default/tacho-hub. The guide is hub.md in
 /usr/share/doc/tacho-hub/docs/guide.
CONTROL
    pack tacho-hub "$version"
}

# server_package NAME OPTIONS DEPENDS: the files for a server: library, option file, and the drop-in
# of its unit for the writer's priority. The description is read from stdin.
server_package() {
    local name=$1 options=$2 depends=$3
    local root=$work/$name
    # The directory of Debian's servers; not that of a server that happens to be installed here.
    local plugins=/usr/lib/mysql/plugin
    local installed=$root$plugins/${library##*/}
    stage_library "$library" "$root" "$plugins"
    stage_server "$root" /usr "$family"
    install -D -m 644 "packaging/$(basename "$options")" "$root$(dirname "$options")/60-tacho.cnf"
    scripts_of "$name" server
    echo "$(dirname "$options")/60-tacho.cnf" >"$root/DEBIAN/conffiles"
    documents "$name" "$version+$family$series"
    {
        echo "Depends: $(needs "$installed"), $depends"
        echo "Recommends: tacho"
        cat
    } >"$root/DEBIAN/control"
    pack "$name" "$version+$family$series"
}

plugin_package() {
    server_package mariadb-plugin-tacho /etc/mysql/mariadb.conf.d/tacho.cnf \
        "mariadb-server (>= 1:$series), mariadb-server (<< 1:$next~)" <<CONTROL
Enhances: mariadb-server
Description: audit recorder for MariaDB $series that loses nothing silently
 A plugin for MariaDB $series. It records all statements, connections
 and errors: the text before the statement runs, its outcome after. Query
 threads only copy into shared memory, which survives the death of the
 server; a thread of its own writes JSON lines, sealed by a hash chain.
 .
 It is not loaded by installing it: INSTALL SONAME 'tacho', or the option
 file /etc/mysql/mariadb.conf.d/60-tacho.cnf.
CONTROL
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

component_package() {
    # In Debian the package of this name is a MySQL again since 9.7; lintian takes it for an old one.
    local overrides=$work/mysql-component-tacho/usr/share/lintian/overrides
    install -d "$overrides"
    echo 'mysql-component-tacho: depends-on-obsolete-package Depends: mysql-server-core *' \
        >"$overrides/mysql-component-tacho"
    server_package mysql-component-tacho /etc/mysql/mysql.conf.d/tacho-mysql.cnf \
        "$(either mysql-server-core mysql-community-server-core)" <<CONTROL
Enhances: mysql-server
Description: audit recorder for MySQL $series that loses nothing silently
 A component for MySQL $series. It records statements, connections
 and errors: the text before the statement runs, its outcome after. Query
 threads only copy into shared memory, which survives the death of the
 server; a thread of its own writes JSON lines, sealed by a hash chain.
 .
 It is not loaded by installing it:
 INSTALL COMPONENT 'file://component_tacho'.
CONTROL
}

mysql_plugin_package() {
    server_package mysql-plugin-tacho /etc/mysql/mysql.conf.d/tacho-mysql-plugin.cnf \
        "$(either mysql-server-core-8.0 mysql-community-server-core)" <<CONTROL
Enhances: mysql-server
Description: audit recorder for MySQL $series that loses nothing silently
 A plugin for MySQL $series. It records statements, connections
 and errors: the text before the statement runs, its outcome after. Query
 threads only copy into shared memory, which survives the death of the
 server; a thread of its own writes JSON lines, sealed by a hash chain.
 .
 It is not loaded by installing it: INSTALL PLUGIN tacho SONAME 'tacho.so',
 or the option file /etc/mysql/mysql.conf.d/60-tacho.cnf.
CONTROL
}

command_package
hub_package
case "$release" in
    mariadb*) plugin_package ;;
    mysql-8.0) mysql_plugin_package ;;
    *) component_package ;;
esac
