#!/usr/bin/env bash
# Runs adapters/mariadb/mtr, a suite for MariaDB's own test framework, under Debian's mariadb-test.
#
#   scripts/mtr.sh              the suite
#   scripts/mtr.sh --record     write its results anew, to be read before they are committed
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$PWD

mtr=/usr/share/mysql/mysql-test
plugins=/usr/lib/mysql/plugin
[ -x "$mtr/mariadb-test-run.pl" ] || {
    echo "mtr.sh: mariadb-test is not installed (scripts/setup.sh test installs it)" >&2
    exit 1
}
work=$tree/build/mtr
rm -rf "$work"
mkdir -p "$work/plugins"
for library in "$plugins"/*.so; do
    ln -s "$library" "$work/plugins/"
done
cp build/mariadb/tacho.so "$work/plugins/"
export TACHO_PLUGIN_DIR=$work/plugins
# The framework makes its sockets in a short path of its own where this one is too long.
options=(--suite="$tree/adapters/mariadb/mtr" --vardir="$work/var" --force --max-test-fail=0
    --parallel=1 --force-restart)
if [ "$(id -u)" -eq 0 ]; then
    options+=(--mysqld=--user=root)
fi
# The framework wants to hear which results it shall write.
if [ "${1:-}" = --record ] && [ $# -eq 1 ]; then
    for test in adapters/mariadb/mtr/t/*.test; do
        options+=("$(basename "$test" .test)")
    done
fi
cd "$mtr"
perl mariadb-test-run.pl "${options[@]}" "$@"
