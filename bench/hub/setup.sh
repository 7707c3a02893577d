#!/usr/bin/env bash
# Builds the generator, and fetches what the hub is compared with, into build/bench-hub. You may run
# it repeatedly. It prints the names of the peers that can be measured, with commas between them.
#
#   DuckDB, chDB    from PyPI, in a virtual environment
#   VictoriaLogs    compiled from its Go module; without Go it is left out
#   OpenSearch      jars from Maven Central; without Maven and Java 21 it is left out
set -euo pipefail
cd "$(dirname "$0")/../.."

victorialogs=1.52.1
java_min=21
build=$PWD/build/bench-hub

say() { printf 'bench/hub/setup.sh: %s\n' "$*" >&2; }

# The home of the first Java that is new enough.
java_home() {
    local home version
    for home in "${JAVA_HOME:-}" /usr/lib/jvm/*; do
        [ -x "$home/bin/javac" ] || continue
        version=$("$home/bin/javac" -version 2>&1 | grep -o '[0-9]*' | head -n 1)
        if [ "$version" -ge $java_min ]; then
            echo "$home"
            return
        fi
    done
}

mkdir -p "$build"
# With the hub: the same features of third-party crates, which are compiled already.
cargo build --release -p tacho-hub -p tacho-hub-load --bin hub_load >&2
install -m 755 "${CARGO_TARGET_DIR:-target}/release/hub_load" "$build/hub_load"

peers=duckdb,chdb
if ! cmp -s bench/hub/requirements.txt "$build/venv/requirements.txt"; then
    python3 -m venv "$build/venv"
    "$build/venv/bin/pip" install --quiet -r bench/hub/requirements.txt >&2
    cp bench/hub/requirements.txt "$build/venv/"
fi
if [ -x "$build/victorialogs/victoria-logs" ]; then
    peers+=,victorialogs
elif command -v go >/dev/null; then
    mkdir -p "$build/victorialogs"
    GOBIN="$build/victorialogs" go install -ldflags '-s -w' \
        "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs@v$victorialogs" >&2
    peers+=,victorialogs
else
    say "VictoriaLogs is left out: it needs Go"
fi
home=$(java_home)
if [ -z "$home" ] || ! command -v mvn >/dev/null; then
    say "OpenSearch is left out: it needs Maven, and JDK $java_min or newer (JAVA_HOME)"
else
    if [ ! -e "$build/opensearch/lib" ]; then
        JAVA_HOME=$home mvn -q -B -f bench/hub/opensearch/pom.xml dependency:copy-dependencies \
            -DoutputDirectory="$build/opensearch/new" >&2
        mv "$build/opensearch/new" "$build/opensearch/lib"
    fi
    ln -sfn "$home" "$build/java"
    peers+=,opensearch
fi
echo "$peers"
