#!/usr/bin/env bash
# The part of test-container.sh that runs with rootless podman.
#
#   scripts/test-container-inside.sh RELEASE WORK ARENA
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/packages.sh
. scripts/packages.sh
release=$1 work=$2 arena=$3
release_facts "$release"
version=$(scripts/version.sh)
if [ "$family" = mariadb ]; then daemon=mariadbd client=mariadb; else daemon=mysqld client=mysql; fi
image=localhost/tachograph-$family:$version-$series

fail() {
    printf 'test-container.sh: %s\n' "$*" >&2
    podman logs db 2>&1 | tail -n 30 >&2 || true
    exit 1
}
say() { printf 'test-container.sh: %s\n' "$*"; }
# It needs no registry, and no network of its own: the hub and the server share one.
export TACHO_CONTAINER_OPTIONS="--isolation chroot --network host --pull=never"
quietly() { "$@" >"$HOME/build.log" 2>&1 || {
    tail -n 30 "$HOME/build.log" >&2
    fail "$* failed"
}; }

build() {
    quietly podman import "$work/system.tar" localhost/system
    # shellcheck disable=SC2086 # several options
    quietly podman build $TACHO_CONTAINER_OPTIONS --format docker \
        --file tests/container/Containerfile.standin --tag localhost/standin "$work/standin"
    TACHO_CONTAINER_BASE=localhost/standin quietly scripts/container.sh "$release" "$image"
}

# run: a container with the volumes of docs/guide/containers.md.
run() {
    podman run --detach --pull never --name db --network none \
        --volume data:/var/lib/mysql --volume log:/var/log/tacho --volume keys:/var/lib/tacho \
        --volume "$arena:/var/lib/tacho-arena" "$image" >/dev/null ||
        fail "the container does not start"
}
sql() { podman exec db "$client" -uroot -N -e "$1"; }
# The server for the files of the entrypoint answers, too.
await_server() {
    local attempt
    for attempt in $(seq 600); do
        if [ "$(podman exec db cat /proc/1/comm 2>/dev/null)" = "$daemon" ] &&
            sql "SELECT 1" >/dev/null 2>&1; then return; fi
        [ "$(podman inspect --format '{{.State.Running}}' db)" = true ] || break
        sleep 0.2
    done
    fail "the server does not come up ($attempt attempts)"
}
# Through a file: a reader that has seen enough would break the pipe of one that writes.
read_log() { podman exec db tacho tail --lines all --format json /var/log/tacho/log >"$HOME/log"; }

# load: each number whose insertion the server has acknowledged, in $HOME/acknowledged.
load() {
    for number in $(seq 200000); do
        printf "INSERT INTO shop.orders VALUES (%s); SELECT %s;\n" "$number" "$number"
    done | podman exec -i db "$client" -uroot -N --unbuffered >"$HOME/acknowledged" 2>/dev/null
}

check_kill() {
    local loader running last recorded
    sql "CREATE DATABASE shop"
    sql "CREATE TABLE shop.orders (id INT PRIMARY KEY)"
    load &
    loader=$!
    sql "SELECT 'it runs', SLEEP(600)" >/dev/null 2>&1 &
    running=$!
    for _ in $(seq 600); do
        if [ "$(wc -l <"$HOME/acknowledged")" -gt 1000 ] && [ -n "$(sql "SELECT id FROM
            information_schema.processlist WHERE info LIKE 'SELECT ''it runs%'")" ]; then break; fi
        sleep 0.1
    done
    podman kill db >/dev/null
    wait "$loader" "$running" || true
    last=$(tail -n 1 "$HOME/acknowledged")
    [ "${last:-0}" -gt 1000 ] || fail "the load did not run: $last"
    podman start db >/dev/null
    await_server
    read_log
    recorded=$(grep '"outcome":"ok"' "$HOME/log" |
        grep -c '"sql":"INSERT INTO shop.orders ' || true)
    say "$last rows were acknowledged when it was killed; the log has $recorded"
    # Each once. The last ones may be in the log without an acknowledgement.
    for number in $(seq "$last"); do
        echo "\"sql\":\"INSERT INTO shop.orders VALUES ($number)\""
    done | sort >"$HOME/wanted"
    grep '"outcome":"ok"' "$HOME/log" | grep -o '"sql":"INSERT INTO shop.orders VALUES ([0-9]*)"' |
        sort >"$HOME/found"
    [ -z "$(uniq -d "$HOME/found")" ] || fail "rows are in the log twice: $(uniq -d "$HOME/found")"
    [ -z "$(comm -23 "$HOME/wanted" "$HOME/found")" ] ||
        fail "rows are not in the log: $(comm -23 "$HOME/wanted" "$HOME/found" | head)"
    interrupted "$HOME/log" "it runs" ||
        fail "the statement that ran is not in the log as interrupted"
}

# tool ARGUMENT...: the command, in a container of its own that has the volume of the log.
tool() {
    podman run --rm --pull never --network none --volume log:/var/log/tacho --entrypoint tacho \
        "$image" "$@"
}
# The end of a log is signed when its server stops.
verify() {
    local key
    podman stop --time 60 db >/dev/null
    key=$(sed -n '0,/"signing_key"/s/.*"signing_key":"\([^"]*\)".*/\1/p' "$HOME/log")
    tool verify --key "$key" /var/log/tacho/log >"$HOME/verified" 2>&1 ||
        fail "the log does not verify: $(cat "$HOME/verified")"
}

# Another container with the same volumes, as after an upgrade of the image.
check_replacement() {
    podman rm db >/dev/null
    run
    await_server
    sql "SELECT 'in another container'" >/dev/null
    verify
    tool tail --lines all --format json /var/log/tacho/log >"$HOME/log"
    grep -q "in another container" "$HOME/log" ||
        fail "the other container does not continue the log"
}

check_hub() {
    local found wanted count="SELECT count(*) FROM records WHERE server = 'db1'"
    quietly podman import "$work/hub.tar" localhost/debian:12
    TACHO_CONTAINER_BASE=localhost/debian:12 quietly scripts/container.sh hub
    podman run --detach --pull never --name hub --network none --read-only --cap-drop all \
        --volume hub:/var/lib/tacho-hub "localhost/tachograph-hub:$version" \
        serve --data /var/lib/tacho-hub --listen 127.0.0.1:7780 --reserve-mib 16 >/dev/null
    for _ in $(seq 300); do
        if podman exec hub curl -fs http://127.0.0.1:7780/healthz >/dev/null; then break; fi
        sleep 0.2
    done
    podman exec hub tacho-hub token create --data /var/lib/tacho-hub --role agent --server db1 |
        podman run --rm -i --pull never --network none --volume keys:/var/lib/tacho \
            --entrypoint sh "$image" \
            -c 'install -m 400 -o mysql /dev/stdin /var/lib/tacho/hub.token'
    podman run --rm --pull never --network container:hub --volume log:/var/log/tacho \
        --volume keys:/var/lib/tacho:ro --user 999:999 --entrypoint tacho "$image" \
        ship /var/log/tacho/log --hub http://127.0.0.1:7780 --token-file /var/lib/tacho/hub.token \
        --name db1 --once >"$HOME/ship" 2>&1 || fail "the log is not shipped: $(cat "$HOME/ship")"
    wanted=$(wc -l <"$HOME/log")
    for _ in $(seq 150); do
        found=$(podman exec hub tacho-hub sql --data /var/lib/tacho-hub "$count" |
            tail -1 | tr -d '\r')
        if [ "$found" = "$wanted" ]; then break; fi
        sleep 0.2
    done
    [ "$found" = "$wanted" ] || fail "the hub finds $found records of $wanted"
}

end() { podman kill --all >/dev/null 2>&1 || true; }
trap end EXIT
mkdir "$arena"
say "building the image of $product with the recorder"
build
run
await_server
say "a kill of the container under load"
check_kill
verify
check_replacement
say "the hub"
check_hub
