#!/usr/bin/env bash
# Copies what was built for a server, and the command, to where this machine's server and shell find
# them.
#
#   scripts/install.sh <directory for the command> [mariadb | mariadb-11.8 | mysql-9.7 | mysql-8.0]
set -euo pipefail

bin_directory=${1:?usage: scripts/install.sh <directory for the command> [server]}
release=${2:-mariadb}
cd "$(dirname "$0")/.."

fail() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

daemon=mysqld series=${release#*-} library=tacho.so needed=
statement="INSTALL PLUGIN tacho SONAME 'tacho.so'"
case "$release" in
    mariadb | mariadb-11.8)
        daemon=mariadbd
        # The other one is built against what this machine has.
        [ "$release" = mariadb-11.8 ] || series=
        statement="INSTALL SONAME 'tacho'"
        ;;
    mysql-9.7)
        library=component_tacho.so
        # The server's own: without it there are no events.
        needed=component_reference_cache.so
        statement="INSTALL COMPONENT 'file://component_tacho'"
        ;;
    mysql-8.0) ;;
    *) fail "there is no server $release (mariadb, mariadb-11.8, mysql-9.7, mysql-8.0)" ;;
esac
library=build/$release/$library
command=build/bin/tacho

for file in "$library" "$command"; do
    [ -f "$file" ] || fail "$file is not built; run make build SERVER=$release first"
done
server=$(PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v "$daemon") ||
    fail "no $daemon on this machine"
version=$("$server" --version)
case "$version" in
    *"Ver $series${series:+.}"*) ;;
    *) fail "$library is for $series, and this machine's server is: $version" ;;
esac
# What the server would use with the configuration files of this machine.
plugin_directory=$("$server" --verbose --help 2>/dev/null |
    sed -n 's/^plugin-dir[[:space:]]*//p' | head -n 1)
[ -d "$plugin_directory" ] || fail "the server names no plugin directory that is there"
plugin_directory=${plugin_directory%/}
[ -z "$needed" ] || [ -f "$plugin_directory/$needed" ] ||
    fail "$plugin_directory has no $needed, which comes with the server"

# Renamed into place: a server that has the old library mapped keeps it until its restart,
# while writing into a mapped library would crash that server.
installed=$plugin_directory/$(basename "$library")
install -m 644 "$library" "$installed.new"
mv -f "$installed.new" "$installed"
install -d "$bin_directory"
install -m 755 "$command" "$bin_directory/tacho"

printf 'installed %s and %s\n' "$installed" "$bin_directory/tacho"
printf 'next, in the server:\n\n    %s;\n\n' "$statement"
