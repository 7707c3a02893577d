#!/usr/bin/env bash
# Runs tacho-capture.service under systemd, as docs/guide/capture.md says: installs the package of
# scripts/deb.sh into a clean Debian whose systemd runs, records a load over lo, kills the capture,
# stops it, verifies the log, and removes the package. Needs root, for name spaces, and some 900 MB
# for a while.
#
#   scripts/test-systemd.sh
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'test-systemd.sh: %s\n' "$*" >&2
    exit 1
}
say() { printf 'test-systemd.sh: %s\n' "$*"; }
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "needs root or sudo"
    exec sudo --preserve-env=DEBIAN_MIRROR,DEBIAN_SECURITY_MIRROR scripts/test-systemd.sh "$@"
fi

suite=bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
package=build/deb/tacho_$(scripts/version.sh)_$(dpkg --print-architecture).deb
[ -r "$package" ] || fail "there is no $package (make deb)"
# The most that systemd-analyze may find, of 100: what is open to a service that is taken over.
exposure_max=20
clients=4 statements=3000

work=$(mktemp -d /var/tmp/tacho-systemd.XXXXXX)
root=$work/root
log=/var/lib/tacho-capture/log
machine=
cleanup() {
    if [ -n "$machine" ]; then
        kill "$machine" 2>/dev/null || true
        wait "$machine" || true
    fi
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
# until_it TEXT COMMAND...: waits until the command succeeds.
until_it() {
    local what=$1
    shift
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then return; fi
        kill -0 "$machine" 2>/dev/null || fail "systemd has ended: $(tail -20 "$work/systemd.log")"
        sleep 0.2
    done
    inside journalctl --no-pager --lines=30 >&2 || true
    fail "after two minutes: $what"
}
inside() {
    nsenter --target "$(cat "$work/pid")" --all --root -- \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
property() { inside systemctl show --value --property="$1" tacho-capture; }
is() { [ "$(property "$1")" = "$2" ]; }
# The capture has opened its socket so many times.
captures() {
    inside journalctl --no-pager --unit=tacho-capture >"$work/journal"
    [ "$(grep -c 'capturing on' "$work/journal")" -ge "$1" ]
}

say "a clean Debian $suite with systemd and MariaDB"
valid_until=$(apt-config dump Acquire::Check-Valid-Until)
mmdebstrap --quiet --variant=apt --mode=root --include=systemd,adduser,mariadb-server \
    ${valid_until:+"--aptopt=$valid_until"} "$suite" "$root" \
    "deb $mirror $suite main" "deb $security $suite-security main"
cp "$package" "$root/tmp.deb"
# It would need a terminal.
ln -s /dev/null "$root/etc/systemd/system/console-getty.service"
scripts/systemd-root.sh "$root" "$work/pid" >"$work/systemd.log" 2>&1 &
machine=$!
booted() { [ -s "$work/pid" ] && inside systemctl is-active --quiet multi-user.target; }
until_it "the machine starts" booted
failed=$(inside systemctl --failed --plain --no-legend)
[ -z "$failed" ] || fail "units have failed: $failed"
until_it "the server starts" inside mariadb -e "SELECT 1"

say "installing the package"
inside dpkg --install /tmp.deb >"$work/install.log" 2>&1 || fail "$(tail -5 "$work/install.log")"
[ "$(inside systemctl is-enabled tacho-capture || true)" = disabled ] || fail "it is enabled"
# As the guide says.
inside adduser --quiet --system --group --no-create-home tacho-capture
settings() {
    printf 'TACHO_CAPTURE_%s\n' "INTERFACE=$1" 'OPTIONS=--server 127.0.0.1:3306 --utc' \
        >"$root/etc/default/tacho-capture"
}
inside mariadb -e "CREATE USER app@127.0.0.1; CREATE USER app@localhost"

say "an interface that does not exist yet"
settings later0
inside systemctl --quiet enable tacho-capture
inside systemctl start --no-block tacho-capture
until_it "it tries again" is SubState auto-restart
nsenter --target "$(cat "$work/pid")" --net ip link add later0 type veth peer name other0
until_it "it captures" captures 1
inside systemctl stop tacho-capture
settings lo

say "a load"
# load TAG: so many sessions over TCP.
load() {
    local client pids=()
    for client in $(seq "$clients"); do
        seq "$statements" | sed "s/.*/SELECT '$1 $client &';/" |
            inside mariadb --protocol=tcp --host=127.0.0.1 --user=app >"$work/client.$client" &
        pids+=($!)
    done
    wait "${pids[@]}"
}
# Those of a load that are in the log, each once.
recorded() {
    inside tacho tail --lines all --format json "$log" >"$work/log" 2>"$work/tail.err" || return
    grep '"outcome":"ok"' "$work/log" | grep -o "\"sql\":\"SELECT '$1 [0-9]* [0-9]*'\"" |
        sort | uniq | wc -l
}
is_recorded() { [ "$(recorded "$1")" -eq $((clients * statements)) ]; }
inside systemctl start tacho-capture
until_it "it captures" captures 2
load first
until_it "the load is in the log" is_recorded first

say "its privileges"
process=$(property MainPID)
has() {
    grep -qP "$1" "$work/status" || fail "the process has other privileges: $(cat "$work/status")"
}
inside cat "/proc/$process/status" >"$work/status"
for capabilities in CapInh CapPrm CapEff CapAmb; do has "^$capabilities:\\t0+\$"; done
has '^NoNewPrivs:\t1$'
has '^Seccomp:\t2$'
has "^Uid:(\\t$(inside id -u tacho-capture)){4}\$"
[ "$(inside stat -c '%U %a' "$log/..")" = "tacho-capture 750" ] ||
    fail "its directory has another mode"
inside systemd-analyze security --no-pager --threshold="$exposure_max" tacho-capture \
    >"$work/security" || fail "it is too exposed: $(cat "$work/security")"
tail -1 "$work/security"

say "kill -9"
inside systemctl kill --signal=KILL tacho-capture
until_it "it has started again" is NRestarts 1
until_it "it captures" captures 3
load second
until_it "the load is in the log" is_recorded second
is_recorded first || fail "statements before the kill are not in the log"

say "stop"
inside systemctl stop tacho-capture
if ! is Result success || ! is ExecMainStatus 0; then fail "it did not stop in the orderly way"; fi
is_recorded second || fail "statements are not in the log after the stop"
causes=$(grep '"event":"lost"' "$work/log" | grep -o '"cause":"[a-z_]*"' | sort | uniq -c |
    tr -s ' ')
# Between two interfaces, and after the kill.
[ "$causes" = ' 2 "cause":"not_running"' ] || fail "something else is lost: $causes"
key=$(sed -n '0,/"signing_key"/s/.*"signing_key":"\([^"]*\)".*/\1/p' "$work/log")
inside tacho verify --key "$key" "$log" >"$work/verify" &&
    fail "the time without it is not declared"
grep -q '^OK, WITH DECLARED LOSSES' "$work/verify" ||
    fail "the log does not verify: $(cat "$work/verify")"
[ -z "$(inside ls /dev/shm)" ] || fail "an arena is left"

say "removing the package while it captures"
inside systemctl start tacho-capture
until_it "it captures" captures 4
inside dpkg --purge tacho >"$work/purge.log" 2>&1 || fail "$(tail -5 "$work/purge.log")"
[ ! -e "/proc/$(cat "$work/pid")/root/proc/$(property MainPID)/exe" ] || fail "it still runs"
[ -z "$(find "$root/etc/systemd" -name 'tacho-*')" ] || fail "links of the unit are left"
[ -n "$(inside find "$log" -name 'audit-*.jsonl')" ] || fail "the log is gone with the package"
say "passed ($suite)"
