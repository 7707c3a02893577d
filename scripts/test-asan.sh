#!/usr/bin/env bash
# Runs the tests that have a server with an adapter that AddressSanitizer watches, and with its
# malloc in the whole server: what reads or writes memory that is not its own ends the server, which
# ends the test. It looks at the C++ of the adapter, and at what all others copy. Half an hour.
#
#   scripts/test-asan.sh [RELEASE [TEST...]]    mariadb (the default), mariadb-11.8, mysql-9.7 or
#                                               mysql-8.0; a test is a part of a name: crash::
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
shift || true
family=${release%%-*}
# Tests that need little time and memory, and have no malloc of their own.
tests=("$@")
if [ ${#tests[@]} -eq 0 ]; then
    tests=(crash:: crash_moments:: disk:: durability:: external::)
    if [ "$family" = mysql ]; then
        for source in tests/mysql/*.rs; do
            name=$(basename "$source" .rs)
            case $name in bench | hotzone | main | pmp) ;; *) tests+=("$name::") ;; esac
        done
    else
        tests+=(charsets:: encryption:: filter:: format:: limits:: names:: overflow:: privileges::
            reinstall:: replication:: secrets:: sessions:: settings:: switch:: tables:: times::)
    fi
fi

cargo build --release -p tacho
install -D -m 755 "${CARGO_TARGET_DIR:-target}/release/tacho" build/bin/tacho
# The existing files in build/ are not instrumented.
trap '"scripts/build-$family.sh" "$release"' EXIT
"scripts/build-$family.sh" "$release" -fsanitize=address -fno-omit-frame-pointer

cargo test -p tacho-tests --no-run

# The code that finds MariaDB's figures asks the kernel what can be read, also beyond its end. (A
# library that was loaded again has no names: uninstall.rs is not among the tests.)
suppressions=$PWD/build/asan.supp
echo "interceptor_via_fun:tacho::look" > "$suppressions"
# The server's own leaks and mixed allocators are not checked here.
export ASAN_OPTIONS=detect_leaks=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:suppressions=$suppressions
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
# The runtime must be the first library of the process that loads ours: the tests' servers inherit
# it.
runtime=$(gcc -print-file-name=libasan.so)
export "CARGO_TARGET_${host}_RUNNER=env LD_PRELOAD=$(readlink -f "$runtime")"
# sysbench's LuaJIT hangs in AddressSanitizer's memory. And MySQL 9.7.4 itself reads freed memory where
# a stored program executes a CREATE USER for the second time (set_and_validate_user_attributes).
skipped=(--skip kills_under_mixed_load --skip sysbench
    --skip no_secret_is_in_a_program_or_in_a_message)
scripts/test-server.sh "$release" usual -- "${skipped[@]}" "${tests[@]}"
