#!/usr/bin/env bash
# Builds packetbeat into build/bench/packetbeat, for measure.py --packetbeat, and prints its path.
# Needs Go 1.22 or newer, a C compiler and libpcap-dev, and 4 GB of disk until it is built.
#
# Debian has no package of it. As a dependency its module cannot be built, because that would ignore
# the `replace` lines of its own go.mod: it is built in a copy of its source.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=v7.17.28
out="$PWD/build/bench/packetbeat"
if [ -x "$out" ]; then
    echo "$out"
    exit 0
fi
mkdir -p "$PWD/build/bench"
work=$(mktemp -d "$PWD/build/bench/packetbeat-XXXXXX")
# Modules are read-only, and so are their copies.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
# Nothing of it stays on the machine.
export GOMODCACHE="$work/modules" GOCACHE="$work/cache" GOFLAGS=-buildvcs=false
source_of() {
    go mod download -json "github.com/elastic/beats/v7@$version" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])'
}
cp -r "$(cd "$work" && source_of)" "$work/beats"
chmod -R u+w "$work/beats"
(cd "$work/beats" && CGO_ENABLED=1 go build -trimpath -o "$work/packetbeat" ./packetbeat) >&2
mv "$work/packetbeat" "$out"
echo "$out"
