#!/usr/bin/env bash
# Runs the checks that take hours or special tools, and prints one line of result for each. Each is
# run, whatever the result of the others; the exit code is 1 if one failed or could not run.
#
#   scripts/check-deep.sh [CHECK...]    without: all
#
#   deny      licences, bans and sources of the third-party crates (cargo-deny)
#   miri      undefined behaviour in the arena (nightly toolchain with miri)
#   fuzz      the fuzzers (nightly toolchain, cargo-fuzz)
#   asan      the tests with AddressSanitizer in the server: asan-mysql-9.7 on that one
#   pauses    the tests with a writer that pauses
#   crash     100 kills and 200 installations under load
#   deb       the packages, in clean Debian systems (root): deb-mysql-9.7, deb-mysql-8.0
#   systemd   tacho-capture.service, under systemd in a clean Debian (root)
#   rpm       the RPM packages, in stand-ins for RHEL 9 (root): rpm-mysql-9.7, rpm-mysql-8.0
#   container the container images (rootless podman): container-mysql-9.7, container-mysql-8.0
#
# The output of each is in build/deep/CHECK.log.
set -euo pipefail
cd "$(dirname "$0")/.."

all=(deny miri fuzz asan asan-mysql-9.7 pauses crash deb deb-mysql-9.7 deb-mysql-8.0 systemd
    rpm rpm-mysql-9.7 rpm-mysql-8.0 container container-mysql-9.7 container-mysql-8.0)
checks=("${@:-${all[@]}}")

# goals CHECK: the arguments of make.
goals() {
    case $1 in
        deny | miri | fuzz | crash) echo "$1" ;;
        asan | pauses | deb | systemd | rpm | container) echo "test-$1" ;;
        asan-* | deb-* | rpm-* | container-*) echo "test-${1%%-*} SERVER=${1#*-}" ;;
    esac
}

for check in "${checks[@]}"; do
    [[ " ${all[*]} " == *" $check "* ]] || {
        echo "check-deep.sh: there is no check $check (${all[*]})" >&2
        exit 2
    }
done
export TACHO_STEPS=build/deep
scripts/steps.sh begin
for check in "${checks[@]}"; do
    # shellcheck disable=SC2046 # several arguments
    scripts/steps.sh run "$check" make $(goals "$check")
done
scripts/steps.sh show
