#!/usr/bin/env bash
# Starts the systemd of a Debian that is in a folder, as the first process of name spaces: with a
# network, processes and control groups of its own. Nothing of this machine changes. Needs root.
# It ends when that systemd ends, and ends it on SIGTERM.
#
#   scripts/systemd-root.sh ROOT PID_FILE
#
#   ROOT       the Debian, with the package systemd
#   PID_FILE   gets the process id of systemd: `nsenter --target PID --all --root COMMAND` runs a
#              command there
set -euo pipefail

root=$1 pid_file=$2
fail() {
    printf 'systemd-root.sh: %s\n' "$*" >&2
    exit 1
}

if [ -z "${TACHO_SYSTEMD_INSIDE:-}" ]; then
    [ "$(id -u)" -eq 0 ] || fail "needs root"
    # A control group of its own: systemd manages what is below it.
    groups=$(findmnt --noheadings --first-only --output TARGET --types cgroup2) ||
        fail "there is no unified hierarchy of control groups"
    group=$groups$(sed -n 's/^0:://p' /proc/self/cgroup)/tacho-systemd.$$
    mkdir "$group"
    child=
    # shellcheck disable=SC2317 # by the trap
    cleanup() {
        [ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true
        wait
        # Its processes have been killed, and are gone in a moment.
        for _ in $(seq 100); do
            if find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; then return; fi
            sleep 0.1
        done
        echo "systemd-root.sh: $group is still in use; it stays" >&2
    }
    trap cleanup EXIT
    trap 'exit 143' TERM INT
    TACHO_SYSTEMD_INSIDE=$group unshare --mount --propagation private --pid --fork --kill-child \
        --uts --ipc --net "$0" "$@" &
    child=$!
    wait "$child"
    exit
fi

# The number that this process has outside: /proc is still that of the machine. It stays the same.
read -r pid _ </proc/self/stat
echo "$pid" >"$pid_file"
# 0 is the process that writes.
echo 0 >"$TACHO_SYSTEMD_INSIDE/cgroup.procs"

mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
# Settings of the kernel are not those of a name space.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777,size=1g tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
touch dev/console
ip link set lo up
exec unshare --cgroup sh -ec '
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    pivot_root . mnt
    umount --lazy mnt
    exec env -i PATH=/usr/sbin:/usr/bin container=tacho /lib/systemd/systemd </dev/null
'
