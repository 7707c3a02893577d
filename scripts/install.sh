#!/usr/bin/env bash
# Installs the build for a server, and the command with its manual pages, completions, units and
# guides; or removes what it has installed.
#
#   [DESTDIR=] [PREFIX=/usr/local] [PLUGIN_DIR=] \
#       scripts/install.sh install|uninstall [mariadb | mariadb-11.8 | mysql-9.7 | mysql-8.0]
#
# The library goes to the plugin directory of this machine's server, or to PLUGIN_DIR. Everything is
# put below DESTDIR. With a DESTDIR, no server is needed.
set -euo pipefail

action=${1:-}
release=${2:-mariadb}
root=${DESTDIR:-}
prefix=${PREFIX:-/usr/local}
cd "$(dirname "$0")/.."
# shellcheck source=scripts/stage.sh
. scripts/stage.sh

fail() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

case "$action" in
    install | uninstall) ;;
    *) fail "usage: scripts/install.sh install|uninstall [server]" ;;
esac
case "$prefix" in
    /*) prefix=${prefix%/} ;;
    *) fail "PREFIX must be an absolute path, not $prefix" ;;
esac
if [ -n "$root" ]; then
    case "$root" in
        /*) root=${root%/} ;;
        *) fail "DESTDIR must be an absolute path, not $root" ;;
    esac
fi

daemon=mysqld family=mysql series=${release#*-} library=tacho.so needed='' options=''
statement="INSTALL PLUGIN tacho SONAME 'tacho.so'" removal="UNINSTALL PLUGIN tacho"
case "$release" in
    mariadb | mariadb-11.8)
        daemon=mariadbd family=mariadb options=tacho.cnf
        # The other one is built against the libraries of this machine.
        [ "$release" = mariadb-11.8 ] || series=
        statement="INSTALL SONAME 'tacho'" removal="UNINSTALL SONAME 'tacho'"
        ;;
    mysql-9.7)
        library=component_tacho.so options=tacho-mysql.cnf
        # A component of the server: without it there are no events.
        needed=component_reference_cache.so
        statement="INSTALL COMPONENT 'file://component_tacho'"
        removal="UN$statement"
        ;;
    mysql-8.0) options=tacho-mysql-plugin.cnf ;;
    *) fail "there is no server $release (mariadb, mariadb-11.8, mysql-9.7, mysql-8.0)" ;;
esac
library=build/$release/$library
manifests=$prefix/share/tacho
manifest=$manifests/installed-$release

# Prints the directory for the library.
plugin_directory() {
    local server version directory
    if [ -n "${PLUGIN_DIR:-}" ]; then
        echo "${PLUGIN_DIR%/}"
        return
    fi
    if server=$(PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$daemon"); then
        version=$("$server" --version)
        case "$version" in
            *"Ver $series${series:+.}"*)
                # The values that the server would use with the configuration files of this machine.
                directory=$("$server" --verbose --help 2>/dev/null |
                    sed -n 's/^plugin-dir[[:space:]]*//p' | head -n 1)
                [ -d "$directory" ] ||
                    fail "the server names no plugin directory that is there; give one in PLUGIN_DIR"
                directory=${directory%/}
                [ -z "$needed" ] || [ -f "$directory/$needed" ] ||
                    fail "$directory has no $needed, which comes with the server"
                echo "$directory"
                return
                ;;
        esac
        [ -n "$root" ] || fail "$library is for $series, and this machine's server is: $version"
    fi
    [ -n "$root" ] || fail "no $daemon on this machine"
    # For another machine: where the packages of Debian, Ubuntu and MySQL have it.
    echo /usr/lib/mysql/plugin
}

# Prints the name of the server's unit. MySQL's is mysqld on RHEL, and mysql on Debian; MariaDB's
# has the same name everywhere. An image below DESTDIR counts more than this machine.
server_unit() {
    local system place
    if [ "$family" = mysql ]; then
        for system in "$root" ''; do
            for place in "$system"/{etc,lib,usr/lib}/systemd/system; do
                [ ! -e "$place/mysql.service" ] || break 2
            done
            for place in "$system"/{etc,lib,usr/lib}/systemd/system; do
                [ ! -e "$place/mysqld.service" ] || { echo mysqld && return; }
            done
        done
    fi
    echo "$family"
}

# Each file is renamed into place: a server that has the old library mapped keeps it until its
# restart, while writing into a mapped library would crash that server.
copy() {
    local from=$1 path
    while IFS= read -r -d '' path; do
        install -d "$(dirname "$root/$path")"
        cp -p --no-preserve=ownership "$from/$path" "$root/$path.new"
        mv -f "$root/$path.new" "$root/$path"
    done < <(cd "$from" && find . -type f -printf '%P\0' | sort -z)
}

install_all() {
    local file plugins list zsh=site-functions
    for file in "$library" "$bin/tacho"; do
        [ -f "$file" ] || fail "$file is not built; run make build SERVER=$release first"
    done
    plugins=$(plugin_directory)
    case "$plugins" in
        /*) ;;
        *) fail "PLUGIN_DIR must be an absolute path, not $plugins" ;;
    esac
    # Debian's zsh does not look into /usr/share/zsh/site-functions.
    [ "$prefix" != /usr ] || [ ! -r /etc/debian_version ] || zsh=vendor-completions

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    umask 022
    stage_command "$work" "$prefix" "$zsh"
    stage_library "$library" "$work" "$plugins"
    stage_server "$work" "$prefix" "$family" "$(server_unit)"
    install -D -m 644 "packaging/$options" "$work$prefix/share/tacho/$release.cnf"
    touch "$work$manifest"
    list=$(cd "$work" && find . -type f -printf '/%P\n' | LC_ALL=C sort)
    printf '%s\n' "$list" >"$work$manifest"
    copy "$work"

    printf 'installed %s and %s\n' \
        "$root$plugins/$(basename "$library")" "$root$prefix/bin/tacho"
    printf '%s lists all files; make uninstall removes them\n' "$root$manifest"
    [ -n "$root" ] || printf 'next, in the server:\n\n    %s;\n\n' "$statement"
}

# The folders that nothing else has files in. Others stay, even if they are empty now.
remove_folders() {
    local folder=$root$1
    while case "$folder" in
        "$root$prefix"/share/tacho* | "$root$prefix"/share/doc/tacho* | *.service.d) true ;;
        *) false ;;
    esac do
        rmdir "$folder" 2>/dev/null || return 0
        folder=$(dirname "$folder")
    done
}

uninstall_all() {
    local path other shared others=()
    [ -f "$root$manifest" ] ||
        fail "$root$manifest is not there: make install did not install here for $release"
    for other in "$root$manifests"/installed-*; do
        [ "$other" = "$root$manifest" ] || others+=("$other")
    done
    while IFS= read -r path; do
        case "$path" in
            /*/../* | [!/]*) fail "$root$manifest names $path, which make install did not" ;;
        esac
        # Another server's installation has the same command.
        shared=''
        [ "${#others[@]}" -eq 0 ] || ! grep -qxF -- "$path" "${others[@]}" || shared=1
        if [ -z "$shared" ] && [ "$path" != "$manifest" ]; then
            rm -f "$root$path"
            remove_folders "$(dirname "$path")"
        fi
    done <"$root$manifest"
    rm -f "$root$manifest"
    remove_folders "$manifests"
    printf 'removed; the log and its key stay where they are\n'
    [ -n "$root" ] ||
        printf 'if the server still loads the library at its start, execute there:\n\n    %s;\n\n' \
            "$removal"
}

"${action}_all"
