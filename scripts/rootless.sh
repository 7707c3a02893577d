#!/usr/bin/env bash
# Runs a command with rootless podman: as root, in a mount name space of its own, as an ordinary
# user that exists only there; as an ordinary user, simply so. Podman's files are in a directory
# that the caller removes.
#
#   scripts/rootless.sh DIRECTORY COMMAND [ARGUMENT...]
#
#   DIRECTORY   becomes the home of the user; the command has it in HOME
set -euo pipefail
cd "$(dirname "$0")/.."

home=$1
shift
[ "$(id -u)" -eq 0 ] || exec env HOME="$home" "$@"
if [ -z "${TACHO_ROOTLESS_INSIDE:-}" ]; then
    # Shared: mounts of a user name space below it would otherwise warn.
    TACHO_ROOTLESS_INSIDE=1 exec unshare --mount --propagation private "$0" "$home" "$@"
fi
user=59999
etc=$home/etc
mkdir -p "$etc"
cp /etc/passwd /etc/group "$etc"
echo "tacho-rootless:x:$user:$user::$home:/bin/bash" >>"$etc/passwd"
echo "tacho-rootless:x:$user:" >>"$etc/group"
echo "tacho-rootless:$((user * 10)):65536" | tee "$etc/subuid" >"$etc/subgid"
for file in passwd group subuid subgid; do
    [ -e "/etc/$file" ] || touch "/etc/$file"
    mount --bind "$etc/$file" "/etc/$file"
done
# crun knows the unified hierarchy of control groups, and not a mixture.
if [ "$(stat -fc %T /sys/fs/cgroup)" != cgroup2fs ]; then
    umount --recursive /sys/fs/cgroup || true
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
mount --make-rshared /
runtime=$home/run
mkdir -p "$runtime" "$home/tmp"
cat >"$home/containers.conf" <<CONF
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
CONF
chown "$user:$user" "$home" "$home/tmp"
chown "$user:$user" "$runtime"
chmod 700 "$runtime"
exec setpriv --reuid "$user" --regid "$user" --clear-groups \
    env -i PATH="$PATH" LC_ALL=C.UTF-8 HOME="$home" XDG_RUNTIME_DIR="$runtime" \
    CONTAINERS_CONF="$home/containers.conf" STORAGE_DRIVER="${STORAGE_DRIVER:-overlay}" \
    TMPDIR="$home/tmp" "$@"
