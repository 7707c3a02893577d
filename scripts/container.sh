#!/usr/bin/env bash
# Builds the container image of the hub from the package that `make deb` has built.
#
#   scripts/container.sh [NAME]     NAME: of the image [tachograph-hub:VERSION]
#
#   TACHO_CONTAINER_BASE     image of Debian 12 [docker.io/library/debian:12-slim]
#   TACHO_CONTAINER_PROGRAM  podman or docker [the first that there is]
#   TACHO_CONTAINER_OPTIONS  more options of its `build`
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(scripts/version.sh)
name=${1:-tachograph-hub:$version}
package=build/deb/tacho-hub_${version}_$(dpkg --print-architecture).deb
[ -f "$package" ] || {
    echo "container.sh: $package is not there; run make deb first" >&2
    exit 1
}
program=${TACHO_CONTAINER_PROGRAM:-$(command -v podman || command -v docker || true)}
[ -n "$program" ] || {
    echo "container.sh: needs podman or docker (apt install podman)" >&2
    exit 1
}
options=()
read -ra options <<<"${TACHO_CONTAINER_OPTIONS:-}"
if [ "$(basename "$program")" = podman ]; then
    # Images of the other format cannot have a health check.
    options+=(--format docker)
fi
if [ -n "${TACHO_CONTAINER_BASE:-}" ]; then
    options+=(--build-arg "BASE=$TACHO_CONTAINER_BASE")
fi

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$package" "$context/tacho-hub.deb"
"$program" build "${options[@]}" --file packaging/Containerfile --tag "$name" "$context"
echo "$name"
