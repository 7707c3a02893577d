#!/usr/bin/env bash
# Fetches a client for tests/any/capture_clients.rs from its registry, with the checksum that is
# listed here or in tests/clients, and prints the command that runs its load, a word in each line.
# It changes nothing else on this machine. You may run it repeatedly.
# Exit code 3: it cannot be fetched, or its language is missing here; the last line says which.
#
#   scripts/setup-clients.sh pymysql | mysql2 | go | mysql-connector-j | mariadb-java-client
set -euo pipefail
cd "$(dirname "$0")/.."

client=${1:-}
loads=$PWD/tests/clients
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/clients"

say() { printf 'setup-clients: %s\n' "$*" >&2; }
not_to_be_had() {
    say "$*"
    exit 3
}

need() { command -v "$1" >/dev/null || not_to_be_had "$1 is not installed"; }

# A folder for this client and what determines its contents: files of the source tree, or texts.
# Sets `root`, and `work`, which becomes the former once it is complete.
lock_root() {
    local key
    key=$({ cat "$@" 2>/dev/null || printf '%s\n' "$@"; } | sha256sum | cut -c 1-16)
    root=$cache/$client-$key
    mkdir -p "$cache"
    exec 9>"$root.lock"
    flock 9
    work=$(mktemp -d "$root.XXXXXX")
    trap 'rm -rf "$work"' EXIT
}

fetch_pymysql() {
    local requirements=$loads/pymysql/requirements.txt
    need python3
    lock_root "$requirements"
    if [ ! -e "$root" ]; then
        python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
            --dest "$work" --requirement "$requirements" >&2 ||
            not_to_be_had "pip cannot fetch it"
        mv "$work" "$root"
    fi
    # Python imports from a wheel without unpacking it.
    printf '%s\n' env "PYTHONPATH=$(echo "$root"/*.whl)" python3 "$loads/pymysql/load.py"
}

fetch_mysql2() {
    local node
    node=$(scripts/setup-node.sh) || not_to_be_had "Node cannot be fetched"
    lock_root "$loads"/mysql2/package{,-lock}.json
    if [ ! -e "$root" ]; then
        cp "$loads"/mysql2/package{,-lock}.json "$work"
        PATH="$node:$PATH" npm ci --prefix "$work" --silent --ignore-scripts --no-audit --no-fund \
            >&2 || not_to_be_had "npm cannot fetch it"
        mv "$work" "$root"
    fi
    printf '%s\n' env "NODE_PATH=$root/node_modules" "$node/node" "$loads/mysql2/load.cjs"
}

fetch_go() {
    need go
    lock_root "$loads"/go/{go.mod,go.sum,main.go}
    if [ ! -e "$root" ]; then
        # Modules of other versions than in go.sum are refused, and so is another toolchain.
        GOTOOLCHAIN=local GOFLAGS=-mod=readonly CGO_ENABLED=0 \
            go build -C "$loads/go" -o "$work/load" . >&2 ||
            not_to_be_had "go cannot fetch it, or not compile it"
        mv "$work" "$root"
    fi
    printf '%s\n' "$root/load"
}

# fetch_java GROUP VERSION SHA256 PREFIX OPTIONS: a driver, the prefix of its URLs, their options.
fetch_java() {
    local group=$1 version=$2 sum=$3 prefix=$4 options=$5 jar=$client-$2.jar
    local copy=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy
    need java
    need mvn
    java --list-modules 2>/dev/null | grep '^jdk\.compiler@' >/dev/null ||
        not_to_be_had "java is no JDK: it cannot compile the load"
    lock_root "$client $version $sum"
    if [ ! -e "$root" ]; then
        mvn --batch-mode --quiet --strict-checksums "$copy" \
            "-Dartifact=$group:$client:$version" "-DoutputDirectory=$work" >&2 ||
            not_to_be_had "Maven cannot fetch it"
        echo "$sum  $work/$jar" | sha256sum --check --quiet >&2 || {
            say "$jar is not the archive that is known"
            exit 1
        }
        mv "$work" "$root"
    fi
    printf '%s\n' java -Dfile.encoding=UTF-8 -cp "$root/$jar" "$loads/java/Load.java" \
        "$prefix" "$options"
}

case "$client" in
    pymysql | mysql2 | go) "fetch_$client" ;;
    mysql-connector-j)
        options='sslMode=DISABLED&allowPublicKeyRetrieval=true&useServerPrepStmts=true'
        fetch_java com.mysql 9.7.0 \
            0353648eaa1c91e0f4020c959abf756bc866ffd583df22ae6b6f6e0cbd43eb44 \
            mysql "$options&useCursorFetch=true&maxAllowedPacket=67108864"
        ;;
    mariadb-java-client)
        options='sslMode=disable&allowPublicKeyRetrieval=true&useServerPrepStmts=true'
        fetch_java org.mariadb.jdbc 3.5.6 \
            a129703efd7b0f334564d46753de999f09b3a361489a2eb647e6020390981cc9 \
            mariadb "$options"
        ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
