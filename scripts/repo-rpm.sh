#!/usr/bin/env bash
# Makes a repository for dnf of the packages in build/rpm, which any web server can serve:
# build/repo-rpm, with a directory for each release of a server, as build/repo-rpm/el9/mariadb10.11.
#
#   scripts/repo-rpm.sh [KEY]
#
#   KEY  a key of GnuPG that signs the packages and the lists, by its fingerprint, id or address: an
#        RSA key, because RHEL in FIPS mode refuses others. Without one nothing is signed
#
#   TACHO_RPM_DIRECTORY  where the packages are [build/rpm]
#   TACHO_RPM_REPO       where the repository goes; what was there is removed [build/repo-rpm]
#
# Packages for different servers have the same name, and dnf would choose the highest version: so
# each release of a server has a repository of its own, with the command and the hub.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=${TACHO_RPM_DIRECTORY:-build/rpm} target=${TACHO_RPM_REPO:-build/repo-rpm} key=${1:-}

fail() {
    echo "repo-rpm.sh: $*" >&2
    exit 1
}

for program in createrepo_c rpmsign; do
    command -v "$program" >/dev/null ||
        fail "needs $program (scripts/setup.sh deep installs it)"
done
compgen -G "$packages/*.rpm" >/dev/null || fail "$packages has no packages; run make rpm first"
mapfile -t servers < <(printf '%s\n' "$packages"/*+*.rpm |
    sed 's/.*+\([a-z]*[0-9.]*\)-.*/\1/' | sort -u)
rm -rf "$target"
mkdir -p "$target/packages"
cp "$packages"/*.rpm "$target/packages/"
if [ -n "$key" ]; then
    # Debian's rpmsign looks for it under another name.
    rpmsign --define "_gpg_name $key" --define "__gpg $(command -v gpg)" \
        --addsign "$target"/packages/*.rpm >"$target/said" 2>&1 </dev/null ||
        fail "the packages cannot be signed with the key $key: $(cat "$target/said")"
    rm "$target/said"
    gpg --batch --yes --armor --output "$target/tachograph.asc" --export "$key"
fi
for server in "${servers[@]}"; do
    directory=$target/el9/$server
    mkdir -p "$directory"
    for package in "$target"/packages/*.rpm; do
        case $package in
            *"+$server-"*) ln "$package" "$directory/" ;;
            *+*) ;;
            *) ln "$package" "$directory/" ;;
        esac
    done
    createrepo_c --quiet --general-compress-type gz "$directory"
    [ -z "$key" ] || gpg --batch --yes --local-user "$key" --armor --detach-sign \
        --output "$directory/repodata/repomd.xml.asc" "$directory/repodata/repomd.xml"
    echo "el9/$server: $(find "$directory" -name '*.rpm' | wc -l) packages"
done
# They are in the directories of the servers.
rm -r "$target/packages"
[ -n "$key" ] || echo "repo-rpm.sh: not signed; give the key: make repo-rpm KEY=…" >&2
echo "$target"
