#!/usr/bin/env bash
# Packs what `make build` has built for RHEL 9 and systems like it: build/rpm/tacho-*.rpm, the
# command, build/rpm/tacho-hub-*.rpm, the hub, and what goes into one release of a server:
# build/rpm/mariadb-plugin-tacho-*.rpm, mysql-component-tacho-*.rpm, or mysql-plugin-tacho-*.rpm.
#
#   scripts/rpm.sh [mariadb | mariadb-11.8 | mysql-9.7 | mysql-8.0]
#
#   TACHO_RPM_RELEASE    the release of the packages [1]
#   TACHO_RPM_DIRECTORY  where they go [build/rpm]
#   TACHO_RPM_PAYLOAD    how they are compressed, as rpm's _binary_payload [w19.zstdio]
#
# The files are those of the packages for Debian, from scripts/stage.sh, at RHEL's places. Nothing
# is compiled: rpmbuild (Debian's package rpm) only packs them.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/stage.sh
. scripts/stage.sh
# shellcheck source=scripts/packages.sh
. scripts/packages.sh
umask 022

release=${1:-mariadb}
release_facts "$release"
out=${TACHO_RPM_DIRECTORY:-build/rpm}
library=build/$release/$library
command -v rpmbuild >/dev/null || {
    echo "rpm.sh: needs rpmbuild (package rpm; scripts/setup.sh deep installs it)" >&2
    exit 1
}
need_built build/bin/tacho build/bin/tacho-hub build/bin/libduckdb.so "$library"
scripts/glibc.sh build/bin/tacho build/bin/tacho-hub build/bin/libduckdb.so "$library"

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# file_list ROOT: the entries of %files: every file, and the directories that no package of RHEL's
# base has. An administrator's changes to an option file survive an upgrade.
file_list() {
    cd "$1"
    find . -type f,l -printf '/%P\n' | LC_ALL=C sort |
        sed 's|%|%%|g; s|^/etc/.*|%config(noreplace) "&"|; s|^/usr/share/licenses/.*|%license "&"|
            s|^/.*|"&"|'
    find . -type d \( -path '*/tacho*' -o -path '*/licenses/*' -o -name '*.service.d' \
        -o -path '*/share/zsh*' -o -path '*/share/fish*' -o -path '*/share/bash-completion*' \) \
        -printf '%%dir "/%P"\n' | LC_ALL=C sort
    # RHEL's MySQL has this directory; Oracle's has not. The log may be below it.
    [ ! -d var/log/mysql ] || echo '%dir %attr(0750,mysql,mysql) "/var/log/mysql"'
}

# licences NAME: the texts, where RHEL has them.
licences() {
    local directory=$work/$1/usr/share/licenses/$1
    install -d "$directory"
    install -m 644 LICENSE-MIT LICENSE-APACHE packaging/copyright "$directory"
    [ "$1" != "$package" ] || install -m 644 adapters/LICENSE "$directory/LICENSE-GPL-2"
}

# pack NAME SPEC [OPTION_FILE]: $work/NAME, of which the caller has made all, as a package.
pack() {
    local name=$1 spec=$2 text
    licences "$name"
    (file_list "$work/$name") >"$work/$name.files"
    text=$(description "$name" "${3:-}")
    rpmbuild -bb --quiet --target x86_64-linux \
        --define "tacho_macros $PWD/packaging/rpm/macros" \
        --define "_topdir $work/rpmbuild" --define "_rpmdir $work/rpmbuild/out" \
        --define "tacho_payload ${TACHO_RPM_PAYLOAD:-w19.zstdio}" \
        --define "tacho_version $(scripts/version.sh)" \
        --define "tacho_release ${TACHO_RPM_RELEASE:-1}.el9" \
        --define "tacho_url ${TACHO_URL:-https://tachograph.example.org}" \
        --define "package $package" --define "family $family" --define "series $series" \
        --define "next_series $next" --define "staged $work/$name" \
        --define "file_list $work/$name.files" \
        --define "summary_line $(head -n 1 <<<"${text^}")" \
        --define "package_description $(tail -n +2 <<<"$text")" \
        "packaging/rpm/$spec.spec" >"$work/rpmbuild.log" 2>&1 || {
        cat "$work/rpmbuild.log" >&2
        exit 1
    }
    cp "$work"/rpmbuild/out/x86_64/"$name"-*.rpm "$out/"
    (cd "$work/rpmbuild/out/x86_64" && printf "$out/%s\n" "$name"-*.rpm)
}

# The files for a server. RHEL's unit of MySQL is mysqld.service.
server_package() {
    local root=$work/$package plugins=/usr/lib64/mysql/plugin unit=mysqld
    if [ "$family" = mariadb ]; then
        # The packages of mariadb.org have the other directory.
        unit=mariadb
        install -d "$root$plugins"
        ln -s "../../mariadb/plugin/${library##*/}" "$root$plugins/${library##*/}"
        plugins=/usr/lib64/mariadb/plugin
    else
        install -d "$root/var/log/mysql"
    fi
    stage_library "$library" "$root" "$plugins"
    chmod 755 "$root$plugins/${library##*/}"
    stage_server "$root" /usr "$family" "$unit"
    install -D -m 644 "packaging/$options" "$root/etc/my.cnf.d/tacho.cnf"
    pack "$package" server /etc/my.cnf.d/tacho.cnf
}

stage_command "$work/tacho" /usr site-functions
pack tacho tacho
stage_hub "$work/tacho-hub" /usr site-functions
chmod 755 "$work/tacho-hub/usr/lib/tachograph/libduckdb.so"
pack tacho-hub tacho-hub
server_package
