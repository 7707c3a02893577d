#!/usr/bin/env bash
# Runs the tests that have a server, with one that is built: after `make build SERVER=RELEASE`.
#
#   scripts/test-server.sh [RELEASE [smoke | usual | all] [-- ARGUMENT...]]
#
#   RELEASE           mariadb (the default), mariadb-11.8, mysql-9.7 or mysql-8.0
#   smoke             the tests that detect a changed release first: minutes for all four
#   usual             all except those that take minutes (the default)
#   all               all that are for it
#   ARGUMENT          of the test programs: --skip NAME, a part of a name, --nocapture
#   TACHO_TEST_THREADS  how many tests run at the same time (6: they mostly wait for their servers)
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
pass=${2:-usual}
[ $# -lt 2 ] || shift
shift || true
[ "${1:-}" != -- ] || shift
family=${release%%-*}

programs=(--test any --test "$family")
# By modules: tests for other releases are not in it.
arguments=()
case $release in
    mariadb | mariadb-11.8) ;;
    mysql-9.7) arguments+=(--skip mariadb_only:: --skip v80::) ;;
    mysql-8.0) arguments+=(--skip mariadb_only:: --skip v97::) ;;
    *)
        echo "test-server.sh: there is no release $release (mariadb, mariadb-11.8, mysql-9.7, mysql-8.0)" >&2
        exit 2
        ;;
esac
case $pass in
    all) arguments+=(--include-ignored) ;;
    usual) ;;
    smoke)
        # Modules of tests/any, and of tests/mariadb or tests/mysql.
        arguments+=(crash:: file_privilege:: identity:: setting_values:: slots:: verify::)
        if [ "$family" = mariadb ]; then
            arguments+=(commands:: figures:: hotzone:: server_audit:: sessions:: tables::)
        else
            arguments+=(clients:: component:: ends:: secrets:: settings:: statements::)
        fi
        ;;
    *)
        echo "test-server.sh: there is no pass $pass (smoke, usual, all)" >&2
        exit 2
        ;;
esac

TACHO_SERVER=$release cargo test -p tacho-tests --no-fail-fast "${programs[@]}" -- \
    --test-threads "${TACHO_TEST_THREADS:-6}" "${arguments[@]}" "$@"
