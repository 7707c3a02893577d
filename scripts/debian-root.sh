# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # what is set here is used there, and the other way round
# Sourced by the scripts that put a server of another Debian suite into a folder: apt fetches the
# packages and checks signatures and sums; nothing on this machine changes.
#
# The script that sources this has set `self` (the prefix of messages), `root` (the folder) and
# `suite`.

mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf '%s: %s\n' "$self" "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

# For servers of moving suites: it is not an error of ours if the server no longer exists. Exit code
# 3.
not_to_be_had() {
    say "$*"
    exit 3
}

need_programs() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || fail "needs $program (scripts/setup.sh test installs it)"
    done
    [ -r "$keyring" ] || fail "needs $keyring (package debian-archive-keyring)"
}

# One at a time: tests of several clones share the folder. Sets `work`, a folder that is removed at
# the end.
lock_root() {
    mkdir -p "${root%/*}"
    exec 9>"$root.lock"
    flock 9
    work=$(mktemp -d "$root.XXXXXX")
    trap 'rm -rf "$work"' EXIT
}

# A separate apt: its own sources (lines of a sources.list), its own lists, and no package
# installed. Sets `apt` and `options`.
make_apt() {
    apt=$work/apt
    mkdir -p "$apt"/etc/apt/{apt.conf.d,preferences.d,sources.list.d} \
        "$apt"/var/lib/{dpkg,apt/lists/partial} "$apt"/var/cache/apt/archives/partial
    : >"$apt/var/lib/dpkg/status"
    printf '%s\n' "$@" >"$apt/etc/apt/sources.list"
    options=(
        -o "Dir=$apt" -o "Dir::State::status=$apt/var/lib/dpkg/status"
        # The proxy settings of this machine's own configuration apply here, too.
        -o "Dir::Etc::parts=/etc/apt/apt.conf.d"
        -o "APT::Architecture=$(dpkg --print-architecture)"
        -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Acquire::Languages=none
    )
    say "reading the packages of Debian $suite"
    # Without that, a server that does not answer is a warning and an empty list.
    apt-get "${options[@]}" -qq -o APT::Update::Error-Mode=any update >&2 || not_to_be_had "Debian $suite cannot be reached"
}

# fetch MB COMMAND...: runs a command that fetches about this much into `$work`, and shows its
# progress: on a terminal every second, in one line; elsewhere every ten seconds, for a log.
fetch() {
    local total=$1 pause=10 end=$'\n' before reporter code=0
    shift
    if [ -t 2 ]; then
        pause=1 end=$'\r'
    fi
    before=$(du -sm "$work" | cut -f1)
    # It ends with this script, however that ends, and keeps neither its lock nor its output open.
    while sleep "$pause" >/dev/null 2>&1 9>&- && kill -0 $$ 2>/dev/null; do
        # Files are created and removed meanwhile.
        printf '%s: %s of %s MB%s' "$self" \
            "$(($(du -sm "$work" 2>/dev/null | cut -f1) - before))" "$total" "$end" >&2
    done >/dev/null 9>&- &
    reporter=$!
    "$@" >&2 || code=$?
    kill "$reporter" 2>/dev/null || true
    wait "$reporter" 2>/dev/null || true
    [ ! -t 2 ] || echo >&2
    return "$code"
}

# unpack_packages MB PACKAGE...: fetches these packages and all that they need, and unpacks them into
# `$work/root`.
unpack_packages() {
    local total=$1
    shift
    fetch "$total" apt-get "${options[@]}" -qq -y --download-only install "$@" ||
        not_to_be_had "$* cannot be fetched"
    say "unpacking"
    mkdir "$work/root"
    local directory package
    # Debian's folders of old are links into /usr; a package may have files in either.
    for directory in bin sbin lib lib64; do
        mkdir -p "$work/root/usr/$directory"
        ln -s "usr/$directory" "$work/root/$directory"
    done
    for package in "$apt"/var/cache/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$work/root" \
            --no-same-owner --exclude='./dev/*' --exclude='./usr/share/doc/*' \
            --exclude='./usr/share/locale/*'
        rm "$package"
    done
}

# The programs with these names (patterns) must run here, with their own C library.
adopt_programs() {
    local machine loader name file
    local names=()
    for name in "$@"; do
        names+=(-o -name "$name")
    done
    machine=$(gcc -print-multiarch)
    loader=$(readlink -f "$work/root/lib64/ld-linux-x86-64.so.2")
    loader=$root${loader#"$work/root"}
    while read -r file; do
        # Scripts stay as they are.
        [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
        patchelf --set-interpreter "$loader" --force-rpath \
            --set-rpath "$root/usr/lib/$machine" "$file"
    done < <(find "$work"/root/usr/{bin,sbin,share} -type f -executable \( "${names[@]:1}" \))
}
