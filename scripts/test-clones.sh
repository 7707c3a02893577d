#!/usr/bin/env bash
# Checks that two clones with different content each run their own code, in the case that cargo
# cannot detect on its own: the files of the second are older than the build of the first.
set -euo pipefail
cd "$(dirname "$0")/.."

# Variables that make exports belong to this clone only.
unset CARGO_TARGET_DIR MAKEFLAGS MFLAGS MAKELEVEL
# The build that is tested has no control over the server that is named to it.
unset TACHO_SERVER SERVER
work=$PWD/build/clones
rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

# clone NAME WORD: the current tree, with a glob module whose test prints WORD.
clone() {
    local place=$work/$1
    mkdir "$place"
    git ls-files -z --cached --others --exclude-standard |
        tar -c --null --ignore-failed-read -T - | tar -x -C "$place"
    cat >>"$place/crates/filter/src/glob.rs" <<RUST

#[cfg(test)]
mod clone {
    #[test]
    fn says_which_clone_it_is() {
        println!("clone $2 in {}", env!("CARGO_MANIFEST_DIR"));
    }
}
RUST
}

# says NAME: the output of the clone's own tests.
says() {
    make --no-print-directory -C "$work/$1" cargo \
        ARGS='test -q -p tacho-filter --lib says_which_clone_it_is -- --nocapture' \
        >"$work/$1.log" 2>&1 || {
        cat "$work/$1.log" >&2
        return 1
    }
    sed -n 's/^.*\(clone [a-z]* in .*\)$/\1/p' "$work/$1.log"
}

clone first one
clone second two
# As old as a file can be here: older than everything that the first builds.
find "$work/second" -exec touch -h -d 2001-01-01 {} +
for place in "first one" "second two" "first one"; do
    read -r name word <<<"$place"
    expected="clone $word in $work/$name/crates/filter"
    said=$(says "$name")
    if [ "$said" != "$expected" ]; then
        printf 'test-clones.sh: expected: %s\ntest-clones.sh: it says: %s\n' "$expected" "$said" >&2
        exit 1
    fi
done
# The workspace's own crates are in no cache.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tachograph/crates
if find "$cache" -path '*/.fingerprint/tacho-*' -prune -print 2>/dev/null | grep .; then
    echo "test-clones.sh: these crates of the workspace are in the cache of third-party crates" >&2
    exit 1
fi
echo "test-clones.sh: two clones, each ran its own code"
