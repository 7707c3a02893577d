# shellcheck shell=bash disable=SC2154 # root, work and key come from test-deb.sh
# The part of test-deb.sh that is about the package tacho-hub: it is sourced there.

hub=
# An array: a function in the background would be a shell of its own, and get the signal instead.
hub_user=(chroot --userspec=tacho-hub:tacho-hub "$root" env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8)
as_hub() { "${hub_user[@]}" "$@"; }

# As the unit does, except that the port is a free one.
start_hub() {
    local attempt
    inside install -d -o tacho-hub -g tacho-hub -m 700 /var/lib/tacho-hub
    "${hub_user[@]}" tacho-hub serve --data /var/lib/tacho-hub --listen 127.0.0.1:0 \
        --reserve-mib 16 >"$work/hub.out" 2>"$work/hub.err" &
    hub=$!
    for attempt in $(seq 300); do
        url=$(sed -n 's|.*listening on \(http://[0-9.:]*\).*|\1|p' "$work/hub.out")
        if [ -n "$url" ]; then return; fi
        kill -0 "$hub" 2>/dev/null || break
        sleep 0.2
    done
    cat "$work/hub.out" "$work/hub.err" >&2
    fail "the hub does not come up ($attempt attempts)"
}
stop_hub() {
    kill "$hub"
    wait "$hub" || fail "the hub did not stop in the orderly way: $(cat "$work/hub.err")"
    hub=
}

# A log is shipped to the hub, found there, and still found by a hub that is started again.
# $1: the log directory.
test_hub() {
    local lines found count="SELECT count(*) FROM records WHERE server = 'db1'"
    start_hub
    grep -q 'sign-in' "$work/hub.out" || fail "the hub prints no link to sign in"
    as_hub tacho-hub token create --data /var/lib/tacho-hub --role agent --server db1 \
        >"$root/tmp/token" || fail "the hub makes no token"
    chmod 600 "$root/tmp/token"
    inside tacho ship "$1" --hub "$url" --token-file /tmp/token --name db1 --once \
        >"$work/ship" 2>&1 ||
        fail "the log is not shipped: $(cat "$work/ship")"
    lines=$(wc -l <"$work/log")
    stop_hub
    start_hub
    for _ in $(seq 150); do
        found=$(as_hub tacho-hub sql --data /var/lib/tacho-hub "$count" | tail -1 | tr -d '\r')
        if [ "$found" = "$lines" ]; then break; fi
        sleep 0.2
    done
    [ "$found" = "$lines" ] || fail "the hub finds $found records of $lines"
    stop_hub
    inside tacho verify --key "$key" /var/lib/tacho-hub/replica/db1/1 >/dev/null ||
        fail "the hub's copy does not verify"
}
