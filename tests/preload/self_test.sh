#!/bin/bash
# Verifies the detector without a server: it detects every violation of a plugin that misbehaves on
# purpose, and nothing else.
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=gnu11 -O2 -Wall -Wextra -Werror)
gcc "${flags[@]}" -fPIC -shared -o "$work/detector.so" detector.c
gcc "${flags[@]}" -fPIC -shared -o "$work/tacho.so" self_test_plugin.c
gcc "${flags[@]}" -o "$work/host" self_test_host.c

LD_PRELOAD="$work/detector.so" TACHO_DETECTOR_REPORT="$work/report" \
  "$work/host" "$work/tacho.so" > /dev/null 2> "$work/log"

diff - "$work/report" <<'REPORT'
events 8
violations 5
errno_changes 1
futex_calls 1
violation malloc
violation free
violation pthread_mutex_lock
violation write
violation syscall
REPORT

if { TACHO_DETECTOR_ABORT=1 LD_PRELOAD="$work/detector.so" \
  "$work/host" "$work/tacho.so"; } > /dev/null 2>&1; then
  echo "self_test.sh: a violation did not abort the process" >&2
  exit 1
fi

# Another plugin is not watched.
cp "$work/tacho.so" "$work/other.so"
LD_PRELOAD="$work/detector.so" TACHO_DETECTOR_REPORT="$work/other_report" \
  "$work/host" "$work/other.so" > /dev/null
if [ -e "$work/other_report" ]; then
  echo "self_test.sh: a plugin of another name was watched" >&2
  exit 1
fi
echo "self_test.sh: the detector detects"
