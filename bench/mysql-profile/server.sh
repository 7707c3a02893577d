# shellcheck shell=bash
# A private MySQL 9.7 for the scripts beside this one, which source it from the project's folder.

server=${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/mysql-9.7
load=(sysbench --db-driver=mysql --mysql-user=root --mysql-db=tacho_bench --tables=1)
export LUA_PATH="/usr/share/sysbench/?.lua"
# The command through which the server is started, if any.
prefix=()
work=''
pid=''

# needs PROGRAM...: they are there, and the component is.
needs() {
    local program
    for program in sysbench mysqladmin "$@"; do
        command -v "$program" >/dev/null || {
            echo "$(basename "$0"): needs $program" >&2
            exit 1
        }
    done
    [ -r build/mysql-9.7/component_tacho.so ] || {
        echo "$(basename "$0"): needs the component: make build SERVER=mysql-9.7" >&2
        exit 1
    }
}

# Makes $work, with the server's data in it. Both go when the script ends.
prepare_server() {
    mkdir -p build/bench
    work=$(mktemp -d "$PWD/build/bench/$(basename "$0" .sh)-XXXXXX")
    arenas=$(mktemp -d /dev/shm/tacho-profile-XXXXXX)
    trap 'stop_server; rm -rf "$work" "$arenas"' EXIT
    mkdir "$work/plugin" "$work/log"
    # The server's own services for events live in a component of its.
    cp build/mysql-9.7/component_tacho.so "$server/usr/lib/mysql/plugin/component_reference_cache.so" "$work/plugin"
    options=(--no-defaults --user="$(id -un)" "--datadir=$work/data" "--basedir=$server/usr" --secure-file-priv=)
    "$server/usr/sbin/mysqld" "${options[@]}" --initialize-insecure "--log-error=$work/initialize.log"
    load+=("--mysql-socket=$work/s")
}

# Starts it and waits until it answers.
start_server() {
    "${prefix[@]}" "$server/usr/sbin/mysqld" "${options[@]}" "--plugin-dir=$work/plugin" "--socket=$work/s" \
        "--pid-file=$work/pid" "--log-error=$work/error.log" --skip-networking --mysqlx=OFF \
        --max-connections=1100 "--loose-tacho.directory=$work/log" \
        "--loose-tacho.arena-directory=$arenas" >"$work/server.log" 2>&1 &
    pid=$!
    until mysqladmin --no-defaults --user=root "--socket=$work/s" --silent ping >/dev/null 2>&1; do
        kill -0 "$pid" || {
            tail "$work/error.log" "$work/server.log" >&2
            exit 1
        }
        sleep 0.3
    done
}

stop_server() {
    if [ -n "$pid" ]; then
        kill "$pid"
        wait "$pid" || true
        pid=''
    fi
}

sql() { mysql --no-defaults --skip-column-names --batch --user=root "--socket=$work/s" --execute="$1"; }
