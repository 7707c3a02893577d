#!/usr/bin/env bash
# Builds and checks the web UI in ui/ with the Node of scripts/setup-node.sh.
#
#   scripts/ui.sh build        ui/dist, which tacho-hub embeds
#   scripts/ui.sh check        types, format, lints, unit tests
#   scripts/ui.sh test         tests in a browser, with a hub that has real records
#   scripts/ui.sh dev          a server with hot reload; the hub is $TACHO_HUB
#   scripts/ui.sh npm ARGS     npm in ui/
set -euo pipefail
cd "$(dirname "$0")/.."

PATH="$(scripts/setup-node.sh):$PATH"
export PATH
cd ui

# Fetches what package-lock.json lists, if that has changed.
install() {
    if ! cmp --silent package-lock.json node_modules/.tacho-lock; then
        npm ci --no-audit --no-fund --loglevel=error >&2
        cp package-lock.json node_modules/.tacho-lock
    fi
}

case "${1:-}" in
    build)
        install
        npm run --silent build
        ;;
    check)
        install
        npm run --silent check
        ;;
    test)
        install
        npm run --silent build
        shift
        npm run --silent test -- "$@"
        ;;
    dev)
        install
        npm run dev
        ;;
    npm)
        shift
        npm "$@"
        ;;
    *)
        echo "usage: scripts/ui.sh build|check|test|dev|npm" >&2
        exit 2
        ;;
esac
