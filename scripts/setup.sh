#!/usr/bin/env bash
# Installs missing packages on a Debian machine. You may run it repeatedly: if everything is
# installed, it asks dpkg once and changes nothing.
#
#   scripts/setup.sh run    what building and `make run` need
#   scripts/setup.sh test   that, and what tests and lints need
#   scripts/setup.sh bench  that, and what tacho is compared with in `make bench`
#   scripts/setup.sh deep   test, and what RPM packages, containers and their tests need
set -euo pipefail

# The oldest Rust that compiles this tree ("rust-version" in Cargo.toml).
rust_minor_min=88

run_packages=(
    ca-certificates clang curl dpkg-dev g++ make patchelf pkg-config python3 python3-pip tzdata
    libmariadbd-dev mariadb-client mariadb-server sysbench
)
test_packages=(
    age binutils bpftrace bsdextrautils chromium clang-format elfutils gnupg lintian man-db mariadb-test mmdebstrap openssl percona-toolkit
    libfaketime shellcheck tcpdump tshark valgrind
    libaio1 libnuma1 maven unzip # MySQL 8.0 and how to get it
)
bench_packages=(libspdlog-dev python3-venv tcpreplay)
deep_packages=(
    createrepo-c dnf gnupg rpm rpmlint
    crun netavark podman podman-compose slirp4netns uidmap
)

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "needs root or sudo for: $*"
    fi
}

install_packages() {
    local package missing=()
    for package in "$@"; do
        # Quiet about packages that dpkg has never heard of; they are missing, too.
        case "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" in
            installed) ;;
            *) missing+=("$package") ;;
        esac
    done
    if [ "${#missing[@]}" -eq 0 ]; then
        return
    fi
    say "installing ${missing[*]}"
    as_root apt-get update -qq
    # The tests start servers of their own: a server that was not here before must not
    # start as a service. Debian's start-up scripts ask policy-rc.d; one that is there stays.
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
    fi
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 "${missing[@]}" </dev/null ||
        fail "apt-get install failed (see above)"
}

# Prints the minor number of a 1.x rustc, or 0 if there is none that works.
rust_minor() {
    local version
    version=$(rustc --version 2>/dev/null || true)
    if [[ $version =~ ^rustc\ 1\.([0-9]+)\. ]] && cargo --version >/dev/null 2>&1; then
        echo "${BASH_REMATCH[1]}"
    else
        echo 0
    fi
}

rust_is_good() { [ "$(rust_minor)" -ge "$rust_minor_min" ]; }

install_rust_by_rustup() {
    local url directory status=0
    url=${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}
    url="$url/dist/$(uname -m)-unknown-linux-gnu/rustup-init"
    directory=$(mktemp -d)
    if curl --proto '=https' --fail --silent --show-error --location --retry 3 \
        --output "$directory/rustup-init" "$url"; then
        chmod 755 "$directory/rustup-init"
        # Its stdout is advice about PATH, which the Makefile takes care of.
        "$directory/rustup-init" -y --quiet --no-modify-path --profile minimal \
            --default-toolchain stable >/dev/null || status=$?
    else
        status=1
    fi
    rm -rf "$directory"
    return "$status"
}

# Prints the version that apt would install, or nothing.
apt_candidate() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([^(]\)/\1/p'
}

install_rust_by_apt() {
    local candidate
    candidate=$(apt_candidate rustc)
    if [[ $candidate =~ ^1\.([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge "$rust_minor_min" ]; then
        install_packages cargo rustc
    elif [ -n "$(apt_candidate rustup)" ]; then
        # Debian's rustup (trixie and later) brings any toolchain.
        install_packages rustup
        rustup toolchain install stable --profile minimal --no-self-update
        rustup default stable
    fi
}

install_rust() {
    export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    if rust_is_good; then
        return
    fi
    if command -v rustup >/dev/null; then
        say "updating Rust ($(rustc --version 2>/dev/null || echo 'no toolchain') is too old)"
        rustup toolchain install stable --profile minimal --no-self-update || true
        rustup default stable || true
    else
        say "installing Rust by rustup"
        install_rust_by_rustup || {
            say "rustup cannot be had, trying Debian's packages"
            install_rust_by_apt || true
        }
    fi
    hash -r
    rust_is_good || fail "needs Rust 1.$rust_minor_min or newer, found: $(
        rustc --version 2>/dev/null || echo none
    ). Install one from https://rustup.rs and run this again."
}

install_lints() {
    if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
        return
    fi
    if command -v rustup >/dev/null; then
        say "installing rustfmt and clippy"
        rustup component add rustfmt clippy
    else
        install_packages rustfmt rust-clippy
    fi
}

[ -r /etc/debian_version ] || fail "this script knows Debian only; docs name the packages to have"
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME

case "${1:-}" in
    run)
        install_packages "${run_packages[@]}"
        install_rust
        ;;
    test | bench | deep)
        packages=("${run_packages[@]}" "${test_packages[@]}")
        case $1 in
            bench) packages+=("${bench_packages[@]}") ;;
            deep) packages+=("${deep_packages[@]}") ;;
        esac
        install_packages "${packages[@]}"
        install_rust
        install_lints
        ;;
    *) fail "usage: scripts/setup.sh run|test|bench|deep" ;;
esac
