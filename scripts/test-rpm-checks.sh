# shellcheck shell=bash disable=SC2154 # the variables come from test-rpm.sh
# Sourced by test-rpm.sh: what is checked there, in this order.

# The list of each package, of which nothing may be elsewhere.
check_files() {
    local name file extra library_name=$library
    for name in tacho tacho-hub "$package"; do
        query -ql "$name" >"$work/files-$name"
        extra=$(grep -vE "^(/usr/(bin/tacho|lib/systemd/system/|lib/tachograph|share/|lib64/m)|$(
            )/etc/my.cnf.d/tacho.cnf$|/var/log/mysql$)" "$work/files-$name" || true)
        [ -z "$extra" ] || fail "$name has files at other places: $extra"
        ! query -q --scripts "$name" | grep % ||
            fail "a script of $name has a macro that is not defined"
        extra=$(query -V "$name") || fail "$name is not installed as it was packed: $extra"
    done
    has_file tacho /usr/bin/tacho /usr/share/man/man1/tacho-verify.1.gz \
        /usr/lib/systemd/system/tacho-{capture,recorder,ship,syslog}.service \
        /usr/share/bash-completion/completions/tacho /usr/share/zsh/site-functions/_tacho \
        /usr/share/doc/tacho/docs/guide/packages.md /usr/share/licenses/tacho/LICENSE-MIT
    has_file tacho-hub /usr/bin/tacho-hub /usr/lib/tachograph/libduckdb.so \
        /usr/lib/systemd/system/tacho-hub.service
    has_file "$package" "$plugins/$library_name" "$options_file" \
        "/usr/lib/systemd/system/$unit.service.d/tacho-priority.conf" \
        "/usr/share/licenses/$package/LICENSE-GPL-2"
    [ "$family" = mariadb ] || has_file "$package" /usr/share/tacho/rewrite_rules.sql /var/log/mysql
    [ "$(grep -c '/man1/.*\.gz$' "$work/files-tacho")" -gt 25 ] || fail "manual pages are missing"
    file=$(query -qc "$package")
    [ "$file" = "$options_file" ] || fail "the option files are: $file"
    inside tacho --version >/dev/null
    inside tacho-hub --version >/dev/null
    scripts/check-links.py "$root/usr/share/doc/tacho" >/dev/null || fail "a guide has a dead link"
}
has_file() {
    local name=$1 file
    shift
    for file in "$@"; do
        grep -qxF "$file" "$work/files-$name" || fail "$name has no $file"
    done
}

# Everything that a unit has in /etc/systemd is a link.
enabled() { find "$root/etc/systemd/system" -name 'tacho-*.service' -printf '%f\n' | sort; }
check_accounts_and_units() {
    local name problems
    inside getent passwd tacho-hub | grep -q ':/var/lib/tacho-hub:/usr/sbin/nologin$' ||
        fail "there is no account tacho-hub: $(inside getent passwd tacho-hub)"
    [ -z "$(enabled)" ] || fail "installing has enabled units: $(enabled)"
    for name in tacho-recorder tacho-ship tacho-syslog tacho-hub "$unit"; do
        problems=$(inside systemd-analyze verify --man=no "$name.service" 2>&1) ||
            fail "$name: $problems"
        [ -z "$problems" ] || fail "$name.service: $problems"
    done
    inside systemctl --quiet enable tacho-recorder tacho-hub
    [ "$(enabled | wc -l)" -eq 2 ] || fail "the units cannot be enabled"
}

log=/var/lib/mysql/tacho
start() {
    local attempt
    inside install -d -o mysql -g mysql "/run/$family"
    chroot "$root" "/usr/libexec/$daemon" --defaults-file=/etc/my.cnf --user=mysql \
        >"$work/server.log" 2>&1 &
    server=$!
    for attempt in $(seq 600); do
        if sql "SELECT 1" >/dev/null 2>&1; then return; fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.2
    done
    tail -n 30 "$work/server.log" "$root"/var/log/{mariadb,mysql}/*.log >&2 || true
    fail "the server does not come up ($attempt attempts)"
}
stop() {
    kill "$server"
    wait "$server" || fail "the server did not stop in the orderly way"
    server=
}
sql() { inside "$client" --defaults-file=/etc/my.cnf -Ne "$1"; }
# Through a file: a reader that has seen enough would break the pipe of one that writes.
read_log() { inside tacho tail --lines all --format json "$log" >"$work/log"; }
has() {
    read_log
    grep -qE "$1" "$work/log" || fail "the log has no line with: $1"
}

# The data directory, as the units of RHEL make it.
initialize() {
    inside install -d -o mysql -g mysql /var/lib/mysql{,-files} /var/log/{mariadb,mysql} \
        "/run/$family"
    case "$release" in
        mariadb*) inside mariadb-install-db --defaults-file=/etc/my.cnf --user=mysql --rpm \
            --skip-test-db ;;
        *) inside "/usr/libexec/$daemon" --defaults-file=/etc/my.cnf --user=mysql \
            --initialize-insecure ;;
    esac >"$work/init.log" 2>&1 || {
        tail -n 20 "$work/init.log" "$root"/var/log/{mariadb,mysql}/*.log >&2 || true
        fail "the data directory cannot be made"
    }
}

check_recording() {
    say "$install in a server that runs"
    initialize
    start
    sql "$install"
    sql "SELECT 'after INSTALL'" >/dev/null
    stop
    has "SELECT 'after INSTALL'"
    say "the option file, without its comment signs"
    # A plugin that the option file loads must not be in the server's table, too.
    if [ "$kind" = plugin ]; then
        start
        sql "UN${install%% SONAME \'tacho.so\'}" >/dev/null
        stop
    fi
    sed -i '/^#\(\[\|[a-z_.]* = \)/s/^#//' "$root$options_file"
    if [ "$family" = mysql ]; then
        log=/var/log/mysql/tacho
        inside mv /var/lib/mysql/tacho "$log"
    fi
    start
    sql "SELECT 'after a restart'" >/dev/null
    sql "SELECT 'it runs', SLEEP(600)" >/dev/null 2>&1 &
    local client_process=$!
    for _ in $(seq 300); do
        [ -z "$(sql "SELECT 1 FROM information_schema.processlist
            WHERE info LIKE 'SELECT ''it runs%'")" ] || break
        sleep 0.1
    done
    kill -9 "$server"
    # The shell says that it was killed.
    wait "$server" "$client_process" 2>/dev/null || true
    server=
    start
    stop
    read_log
    interrupted "$work/log" "it runs" || fail "the killed statement is not in the log"
    has "SELECT 'after a restart'"
    key=$(sed -n '0,/"signing_key"/s/.*"signing_key":"\([^"]*\)".*/\1/p' "$work/log")
    inside tacho verify --key "$key" "$log" >/dev/null || fail "the log does not verify"
}

check_upgrade() {
    start
    cp "$root$options_file" "$work/options"
    make_repository 2
    must_dnf upgrade
    [ "$(query -q "$package" --qf '%{release}')" = 2.el9 ] || fail "$package is not upgraded"
    cmp "$work/options" "$root$options_file" || fail "the upgrade has changed the option file"
    [ "$(enabled | xargs)" = "tacho-hub.service tacho-recorder.service" ] ||
        fail "the upgrade has changed which units are enabled: $(enabled)"
    sql "SELECT 'after the upgrade'" >/dev/null
    stop
    start
    sql "SELECT 'with the new library'" >/dev/null
    stop
    has "SELECT 'after the upgrade'"
    has "SELECT 'with the new library'"
}

# The log and the keys, with their contents.
kept() {
    (cd "$root" && find ".$log" var/lib/mysql/tacho-signing.key var/lib/tacho-hub/replica -type f \
        -exec sha256sum {} + | sort -k 2)
}
check_removal() {
    if [ "$kind" = component ]; then
        start
        sql "UN$install"
        stop
    fi
    kept >"$work/before"
    must_dnf remove tacho tacho-hub "$package"
    [ -z "$(enabled)" ] || fail "links of units are left: $(enabled)"
    [ ! -e "$root$plugins/$library" ] || fail "the library is still there"
    [ ! -e "$root$options_file" ] || fail "the option file is still in force"
    [ -e "$root$options_file.rpmsave" ] || fail "the changed option file is not kept"
    kept | diff "$work/before" - >&2 || fail "the log or a key changed with the package"
    inside getent passwd tacho-hub >/dev/null || fail "the account that owns the hub's logs is gone"
    start
    stop
}

check_changed_repository() {
    local directory=$work/repo/el9/$family$series file
    # A package with another content and its right size.
    file=$(find "$directory" -name 'tacho-[0-9]*.rpm')
    cp "$file" "$work/unchanged.rpm"
    printf 'x' | dd of="$file" bs=1 seek=200000 conv=notrunc status=none
    ! run_dnf install tacho || fail "dnf has installed a package that was changed"
    cp "$work/unchanged.rpm" "$file"
    # A list that was changed.
    sed -i 's/<revision>/<revision>1/' "$directory/repodata/repomd.xml"
    ! run_dnf --refresh install tacho || fail "dnf has accepted a list that was changed"
    grep -qiE 'gpg|signature' "$work/dnf.log" || fail "dnf says: $(cat "$work/dnf.log")"
}
