# Sourced by the scripts that make and test packages and images: what differs between the releases
# of servers, and the descriptions of the packages. The current directory is that of the repository.
# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used there

# release_facts RELEASE: sets family, series, next (the series after it), product, kind, library
# (its file name), package, options (the example in packaging/) and install (the statement that
# loads it).
release_facts() {
    kind=plugin library=tacho.so
    case "$1" in
        mariadb) family=mariadb series=10.11 next=10.12 ;;
        mariadb-11.8) family=mariadb series=11.8 next=11.9 ;;
        mysql-9.7) family=mysql series=9.7 next=9.8 kind=component library=component_tacho.so ;;
        mysql-8.0) family=mysql series=8.0 next=8.1 ;;
        *)
            echo "$(basename "$0"): there is no release $1" \
                "(mariadb, mariadb-11.8, mysql-9.7, mysql-8.0)" >&2
            exit 2
            ;;
    esac
    package=$family-$kind-tacho
    case "$family-$kind" in
        mariadb-*) product="MariaDB $series" options=tacho.cnf install="INSTALL SONAME 'tacho'" ;;
        *-plugin)
            product="MySQL $series" options=tacho-mysql-plugin.cnf
            install="INSTALL PLUGIN tacho SONAME 'tacho.so'"
            ;;
        *)
            product="MySQL $series" options=tacho-mysql.cnf
            install="INSTALL COMPONENT 'file://component_tacho'"
            ;;
    esac
}

# description PACKAGE OPTION_FILE: the package's description: one line, then paragraphs. A server
# remembers a component, so its option file has only settings.
description() {
    local name=$1 at_start="The option file is $2."
    [ "$kind" = component ] || at_start="Or use the option file $2."
    [ -f "packaging/description/$name" ] || name=server
    sed "s|@PRODUCT@|$product|g; s|@KIND@|$kind|g; s|@INSTALL@|$install|; s|@AT_START@|$at_start|" \
        "packaging/description/$name"
}

# need_built FILE...: fails if `make build` has not made these files.
need_built() {
    local file
    for file in "$@"; do
        [ -f "$file" ] || {
            echo "$(basename "$0"): $file is not built; run make build first" >&2
            exit 1
        }
    done
}

# interrupted LOG TEXT: whether a log has the statement with this text as interrupted. One that ran
# for long has a line of its own before, and then only that has the text.
interrupted() {
    local seq
    ! grep -q "\"outcome\":\"interrupted\".*$2" "$1" || return 0
    seq=$(sed -n "s/.*\"seq\":\([0-9]*\),.*\"outcome\":\"running\".*$2.*/\1/p" "$1" | tail -n 1)
    [ -n "$seq" ] && grep -q "\"outcome\":\"interrupted\".*\"running_seq\":${seq}[,}]" "$1"
}
