#!/usr/bin/env bash
# Copies the built plugin and command to where this machine's MariaDB and shell find them.
#
#   scripts/install.sh <directory for the command>
set -euo pipefail

bin_directory=${1:?usage: scripts/install.sh <directory for the command>}
plugin=build/mariadb/tacho.so
command=build/bin/tacho
cd "$(dirname "$0")/.."

fail() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

for file in "$plugin" "$command"; do
    [ -f "$file" ] || fail "$file is not built; run make build first"
done
server=$(PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v mariadbd) ||
    fail "no mariadbd on this machine"
# What the server would use with the configuration files of this machine.
plugin_directory=$("$server" --verbose --help 2>/dev/null |
    sed -n 's/^plugin-dir[[:space:]]*//p' | head -n 1)
[ -d "$plugin_directory" ] || fail "the server names no plugin directory that is there"

# Renamed into place: a server that has the old library mapped keeps it until its restart,
# while writing into a mapped library would crash that server.
install -m 644 "$plugin" "$plugin_directory/tacho.so.new"
mv -f "$plugin_directory/tacho.so.new" "$plugin_directory/tacho.so"
install -d "$bin_directory"
install -m 755 "$command" "$bin_directory/tacho"

printf 'installed %s and %s\n' "$plugin_directory/tacho.so" "$bin_directory/tacho"
printf 'next, in the server:\n\n    INSTALL SONAME '"'tacho'"';\n\n'
