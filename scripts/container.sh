#!/usr/bin/env bash
# Builds container images from what `make build` and `make deb` have built: the official image of a
# server with the recorder in it, or the hub.
#
#   scripts/container.sh [mariadb | mariadb-11.8 | mysql-9.7 | mysql-8.0 | hub] [NAME]
#
#   NAME                     of the image [tachograph-mariadb:VERSION-10.11, …, tachograph-hub:…]
#   TACHO_CONTAINER_BASE     image it is based on [mariadb:10.11, …,
#                            debian:12-slim for the hub]
#   TACHO_CONTAINER_PROGRAM  podman or docker [the first that there is]
#   TACHO_CONTAINER_OPTIONS  more options of its `build`
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/stage.sh
. scripts/stage.sh
# shellcheck source=scripts/packages.sh
. scripts/packages.sh

what=${1:-mariadb}
version=$(scripts/version.sh)
program=${TACHO_CONTAINER_PROGRAM:-$(command -v podman || command -v docker || true)}
[ -n "$program" ] || {
    echo "container.sh: needs podman or docker (apt install podman)" >&2
    exit 1
}
build_options=()
read -ra build_options <<<"${TACHO_CONTAINER_OPTIONS:-}"
if [ "$(basename "$program")" = podman ]; then
    # Images of the other format cannot have a health check.
    build_options+=(--format docker)
fi

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
umask 022

hub_context() {
    local package
    package=build/deb/tacho-hub_${version}_$(dpkg --print-architecture).deb
    [ -f "$package" ] || {
        echo "container.sh: $package is not there; run make deb first" >&2
        exit 1
    }
    cp "$package" "$context/tacho-hub.deb"
    name=tachograph-hub:$version base='' file=Containerfile.hub
}

server_context() {
    release_facts "$what"
    local built=build/$what/$library to=$context
    need_built "$bin/tacho" "$built"
    # The images of MySQL are made of Oracle Linux 9.
    scripts/glibc.sh "$bin/tacho" "$built"
    install -m 755 "$bin/tacho" packaging/container/tacho-entrypoint "$context/"
    strip_file "$context/tacho"
    if [ "$family" = mysql ]; then
        mkdir "$context/lib" "$context/initdb"
        to=$context/lib
        install -m 644 "packaging/container/$what.cnf" "$context/tacho.cnf"
        [ "$kind" = plugin ] ||
            install -m 644 "packaging/container/$what.sql" "$context/initdb/tacho.sql"
    else
        install -m 644 packaging/container/mariadb.cnf "$context/tacho.cnf"
    fi
    install -m 644 "$built" "$to/$library"
    strip_file "$to/$library"
    install -D -m 644 -t "$context/licenses" LICENSE-MIT LICENSE-APACHE packaging/copyright
    install -m 644 adapters/LICENSE "$context/licenses/LICENSE-GPL-2"
    name=tachograph-$family:$version-$series base=$family:$series
    file=Containerfile.$family
}

if [ "$what" = hub ]; then hub_context; else server_context; fi
name=${2:-$name} base=${TACHO_CONTAINER_BASE:-$base}
[ -z "$base" ] || build_options+=(--build-arg "BASE=$base")
"$program" build "${build_options[@]}" --file "packaging/container/$file" --tag "$name" "$context"
echo "$name"
