#!/usr/bin/env bash
# Makes an apt repository of the packages in build/deb, which any web server can serve: build/repo.
#
#   scripts/repo.sh [KEY]
#
#   KEY  a key of GnuPG that signs it, by its fingerprint, id or address. Without one it is not
#        signed, and apt takes it only with [trusted=yes]
#
# Packages for different servers have the same name, so each release of a distribution gets those of
# its own server.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=build/deb target=build/repo key=${1:-}

# Ends of versions that a release gets, besides the packages for all of them.
endings() {
    case $1 in
        bookworm) echo mariadb10.11 mysql8.0 ;;
        trixie) echo mariadb11.8 ;;
        sid) echo mariadb11.8 mysql9.7 ;;
        noble) echo mariadb10.11 mysql8.0 ;;
    esac
}
releases=(bookworm trixie sid noble)

fail() {
    echo "repo.sh: $*" >&2
    exit 1
}

# pick RELEASE: the files of a release.
pick() {
    local file ending
    for file in "$packages"/*.deb; do
        case $file in
            *+*_*) for ending in $(endings "$1"); do
                [[ $file != *+"$ending"_* ]] || echo "$file"
            done ;;
            *) echo "$file" ;;
        esac
    done
}

# index RELEASE: its list of packages, and the list of that.
index() {
    local release=$1 root=$target/dists/$1 file
    local list=main/binary-$architecture
    mkdir -p "$root/$list"
    rm -rf "$target/chosen"
    mkdir "$target/chosen"
    while read -r file; do
        cp -n "$file" "$target/pool/"
        ln "$target/pool/$(basename "$file")" "$target/chosen/"
    done < <(pick "$release")
    (cd "$target" && dpkg-scanpackages --multiversion chosen 2>/dev/null) |
        sed 's,^Filename: chosen/,Filename: pool/,' >"$root/$list/Packages"
    gzip -9nk "$root/$list/Packages"
    {
        printf 'Origin: Tachograph\nLabel: Tachograph\nSuite: %s\n' "$release"
        printf 'Codename: %s\nArchitectures: %s\n' "$release" "$architecture"
        printf 'Components: main\nDate: %s\nSHA256:\n' "$(LC_ALL=C date -Ru)"
        for file in "$list/Packages" "$list/Packages.gz"; do
            printf ' %s %s %s\n' "$(sha256sum <"$root/$file" | cut -d ' ' -f 1)" \
                "$(stat -c %s "$root/$file")" "$file"
        done
    } >"$root/Release"
    rm -r "$target/chosen"
    [ -z "$key" ] || {
        gpg --batch --yes --local-user "$key" --clearsign --output "$root/InRelease" "$root/Release"
        gpg --batch --yes --local-user "$key" --armor --detach-sign \
            --output "$root/Release.gpg" "$root/Release"
    }
}

compgen -G "$packages/*.deb" >/dev/null || fail "$packages has no packages; run make deb first"
architecture=$(dpkg --print-architecture)
rm -rf "$target"
mkdir -p "$target/pool"
for release in "${releases[@]}"; do
    index "$release"
    echo "$release: $(grep -c '^Package:' "$target/dists/$release/main/binary-$architecture/Packages") packages"
done
if [ -n "$key" ]; then
    gpg --batch --yes --export "$key" >"$target/tachograph.gpg"
else
    echo "repo.sh: not signed; give the key: make repo KEY=…" >&2
fi
echo "$target"
