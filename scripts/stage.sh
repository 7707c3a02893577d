# Sourced by install.sh, deb.sh and rpm.sh: puts what `make build` has built below a directory, as
# it is to be installed. The current directory is that of the repository.
# shellcheck shell=bash

# The directory of the commands; the tests of the crates have others.
bin=${TACHO_BIN:-build/bin}

# strip_file FILE: removes the symbols that are not needed at run time. The files in build/ keep
# them for debuggers; the exports of a library stay in .dynsym.
strip_file() { strip --strip-unneeded --remove-section=.comment --remove-section=.note "$1"; }

# placed PREFIX: a text from the standard input, with the places of this installation.
placed() { sed "s#/usr/bin/tacho#$1/bin/tacho#g; s#/usr/share/#$1/share/#g"; }

# stage_manual COMMAND SHARE PREFIX ZSH: manual pages and completions.
stage_manual() {
    local command=$1 share=$2 prefix=$3 zsh=$4 file shell
    "$bin/$command" man --output "$share/man/man1"
    for file in "$share"/man/man1/tacho*.1; do
        placed "$prefix" <"$file" | gzip -9n >"$file.gz"
        rm "$file"
    done
    for shell in "bash:bash-completion/completions/$command" "zsh:zsh/$zsh/_$command" \
        "fish:fish/vendor_completions.d/$command.fish"; do
        install -d "$(dirname "$share/${shell#*:}")"
        "$bin/$command" completions "${shell%%:*}" >"$share/${shell#*:}"
    done
}

# stage_command ROOT PREFIX ZSH: the command, manual pages, completions, units and guides. ZSH is
# the folder below PREFIX/share/zsh where that shell looks for completions.
stage_command() {
    local root=$1 prefix=$2 zsh=$3
    local share=$root$prefix/share file
    install -D -m 755 "$bin/tacho" "$root$prefix/bin/tacho"
    strip_file "$root$prefix/bin/tacho"

    # Not enabled by default.
    install -d "$root$prefix/lib/systemd/system" "$share/man/man1"
    for file in tacho-{capture,recorder,ship,syslog}.service; do
        placed "$prefix" <"packaging/$file" >"$root$prefix/lib/systemd/system/$file"
    done
    stage_manual tacho "$share" "$prefix" "$zsh"

    stage_documents "$share/doc/tacho"
    find "$share" "$root$prefix/lib/systemd" -type f -exec chmod 644 {} +
}

# stage_documents DIRECTORY: all guides, as they are in the repository, so that their links hold.
stage_documents() {
    install -d "$1"
    cp README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md "$1/"
    cp -r docs "$1/"
    # For the site (scripts/site.sh).
    rm "$1/docs/book.toml" "$1/docs/site.css" "$1/docs/tabs.js"
    find "$1" -type d -exec chmod 755 {} +
}

# stage_hub ROOT PREFIX ZSH: the hub, the library that it loads, its unit, manual and guides.
stage_hub() {
    local root=$1 prefix=$2 zsh=$3
    install -D -m 755 "$bin/tacho-hub" "$root$prefix/bin/tacho-hub"
    strip_file "$root$prefix/bin/tacho-hub"
    stage_library "$bin/libduckdb.so" "$root" "$prefix/lib/tachograph"
    stage_manual tacho-hub "$root$prefix/share" "$prefix" "$zsh"
    install -d "$root$prefix/lib/systemd/system"
    placed "$prefix" <packaging/tacho-hub.service >"$root$prefix/lib/systemd/system/tacho-hub.service"
    stage_documents "$root$prefix/share/doc/tacho-hub"
    find "$root$prefix/share" "$root$prefix/lib/systemd" -type f -exec chmod 644 {} +
}

# stage_library FILE ROOT DIRECTORY
stage_library() {
    install -D -m 644 "$1" "$2$3/$(basename "$1")"
    strip_file "$2$3/$(basename "$1")"
}

# stage_server ROOT PREFIX FAMILY UNIT: the files that belong to a library: the drop-in that permits
# the writer's priority, for the server's unit, and the script for rules that rewrite.
stage_server() {
    local root=$1 prefix=$2 family=$3 unit=$4
    install -d "$root$prefix/lib/systemd/system/$unit.service.d"
    placed "$prefix" <packaging/tacho-priority.conf \
        >"$root$prefix/lib/systemd/system/$unit.service.d/tacho-priority.conf"
    if [ "$family" = mysql ]; then
        install -D -m 644 packaging/rewrite_rules.sql -t "$root$prefix/share/tacho"
    fi
}
