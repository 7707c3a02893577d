#!/usr/bin/env bash
# Installs the build below a temporary folder, checks all of it, and uninstalls it.
#
#   scripts/test-install.sh [mariadb | mariadb-11.8 | mysql-9.7 | mysql-8.0]
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:-mariadb}
fail() {
    printf 'test-install.sh: %s\n' "$*" >&2
    exit 1
}
case "$release" in
    mariadb*) family=mariadb library=tacho.so ;;
    mysql-9.7) family=mysql library=component_tacho.so ;;
    mysql-*) family=mysql library=tacho.so ;;
    *) fail "there is no server $release" ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
run() { make --no-print-directory -s "$@" "SERVER=$release" "DESTDIR=$root" PREFIX=/usr; }
files() { (cd "$root" && find . -type f -printf '/%P\n' | LC_ALL=C sort); }

# Existing files must not be changed, and files of others must stay.
install -d "$root/usr/share/doc/other" "$root/usr/bin"
touch "$root/usr/bin/other" "$work/stamp"
run install >/dev/null
outside=$(find /usr/lib/mysql/plugin /usr/local /usr/bin /usr/share/man -newer "$work/stamp" \
    -name '*tacho*' 2>/dev/null || true)
[ -z "$outside" ] || fail "DESTDIR was ignored for $outside"

installed=$(find "$root" -name "$library")
for file in "$installed" "$root"/usr/bin/tacho \
    "$root"/usr/share/man/man1/{tacho,tacho-tail,tacho-pmp-diff}.1.gz \
    "$root"/usr/share/bash-completion/completions/tacho "$root"/usr/share/zsh/*/_tacho \
    "$root"/usr/share/fish/vendor_completions.d/tacho.fish \
    "$root"/usr/lib/systemd/system/{tacho-recorder,tacho-ship,tacho-syslog}.service \
    "$root/usr/lib/systemd/system/$family.service.d/tacho-priority.conf" \
    "$root/usr/share/tacho/$release.cnf" "$root"/usr/share/doc/tacho/docs/guide/install.md; do
    [ -s "$file" ] || fail "there is no ${file#"$root"}"
done
[ "$family" = mariadb ] || [ -s "$root/usr/share/tacho/rewrite_rules.sql" ] || fail "no rules"
diff <(files) <(LC_ALL=C sort - <(echo /usr/bin/other) <"$root/usr/share/tacho/installed-$release") ||
    fail "the list of the files is wrong"

# Stripped, except for the symbols that the server looks up; the build keeps its symbols.
for pair in "${TACHO_BIN:-build/bin}/tacho:$root/usr/bin/tacho" "build/$release/$library:$installed"; do
    built=${pair%%:*} file=${pair#*:}
    # Not in a pipe to `grep -q`: it ends at the first match, and readelf would fail at times.
    ! grep -q '\.symtab\|\.debug_info' <<<"$(readelf -SW "$file")" || fail "$file is not stripped"
    grep -q '\.symtab' <<<"$(readelf -SW "$built")" || fail "$built has lost its symbols"
    [ "$(($(stat -c %s "$file") * 10))" -lt "$(($(stat -c %s "$built") * 9))" ] ||
        fail "$file is large: $(stat -c %s "$file") bytes"
done
scripts/plugin-symbols.sh "$release" "$installed"
"$root/usr/bin/tacho" --version >/dev/null

# Manual pages: sections, no complaint of the formatter, no line beyond 80 columns, no page missing.
count=0
for page in "$root"/usr/share/man/man1/tacho*.1.gz; do
    count=$((count + 1))
    warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" \
        2>&1 >/dev/null) || fail "$page cannot be shown: $warnings"
    [ -z "$warnings" ] || fail "$page: $warnings"
    LC_ALL=C.UTF-8 MANWIDTH=80 man -P cat -l "$page" 2>/dev/null | col -bx >"$work/page"
    for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' FILES EXAMPLES 'SEE ALSO'; do
        grep -qx "$section" "$work/page" || fail "$page has no section $section"
    done
    long=$(LC_ALL=C.UTF-8 awk 'length > 80' "$work/page")
    [ -z "$long" ] || fail "$page has lines beyond 80 columns: $long"
    while IFS= read -r other; do
        [ -f "$root/usr/share/man/man1/$other.1.gz" ] || fail "$page names $other, which is not there"
    done < <(grep -o 'tacho[a-z-]*(1)' "$work/page" | sed 's/(1)//' | sort -u)
    sed -n 's/^ *The guide: //p' "$work/page" >"$work/guide"
    [ -f "$root$(cat "$work/guide")" ] || fail "$page names no guide that is there"
done
[ "$count" -gt 15 ] || fail "there are $count manual pages"
# A row of a table is a line of its own.
LC_ALL=C.UTF-8 MANWIDTH=80 man -P cat -l "$root/usr/share/man/man1/tacho-verify.1.gz" 2>/dev/null |
    col -bx >"$work/page"
grep -qE '^ +12 +gap' "$work/page" || fail "the table of tacho-verify(1) is flowed"

# Units name the command where it is, and documents that are there.
grep -q '^ExecStart=/usr/bin/tacho ' "$root/usr/lib/systemd/system/tacho-recorder.service" ||
    fail "the unit names another command"
scripts/check-links.py . "$root/usr/share/doc/tacho"
while IFS= read -r named; do
    [ -e "$root$named" ] || fail "$named is named, and is not there"
done < <(grep -rhoE '/usr/share/doc/tacho[A-Za-z0-9/._-]*[A-Za-z0-9]' "$root/usr/lib/systemd" \
    "$root/usr/share/tacho" | sort -u)

run uninstall >/dev/null
[ "$(files)" = /usr/bin/other ] || fail "uninstalling left $(files)"
[ -d "$root/usr/share/doc/other" ] || fail "uninstalling removed a folder of another program"
[ ! -e "$root/usr/share/doc/tacho" ] || fail "uninstalling left /usr/share/doc/tacho"

# Where MySQL's unit is RHEL's, the drop-in is for that one.
if [ "$family" = mysql ]; then
    install -D /dev/null "$root/usr/lib/systemd/system/mysqld.service"
    run install >/dev/null
    [ -s "$root/usr/lib/systemd/system/mysqld.service.d/tacho-priority.conf" ] ||
        fail "the drop-in is not for mysqld.service"
    run uninstall >/dev/null
    [ ! -e "$root/usr/lib/systemd/system/mysqld.service.d" ] || fail "uninstalling left the drop-in"
fi
echo "test-install.sh: $release is installed below DESTDIR, and removed"
