#!/usr/bin/env python3
"""Share compiled third-party crates between clones, and nothing else.

    scripts/crate-cache.py seed    copy them from the cache into this clone's target directory
    scripts/crate-cache.py save    copy those that the cache lacks into the cache

Each clone compiles the workspace's own crates in a target directory of its own: cargo takes a
crate as fresh if its files are older than the last build, so with a shared directory a clone whose
files are older than another clone's build would run that clone's code, with its paths.
The source of a third-party crate cannot differ: its package id has the version and the registry's
checksum. What the compiler makes of it can: a build script's output has the path of the target
directory in it, and a crate fits only the artefacts that it was compiled against. So crates are
shared only between directories whose common crates are the same files.

The cache is `$XDG_CACHE_HOME/tachograph/crates/<key>` (default `~/.cache`). The key is the hash of
what a compiled crate depends on: the compiler, `Cargo.lock` and the profiles in `Cargo.toml`.
If there is no entry for the key, an empty target directory gets the fullest one: cargo compiles
anew what another version or profile changes, and takes the rest as it is. Crates that no key needs
any more come along, so after some generations a target directory begins empty again.
Without a cache the build works too; it only takes longer.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tachograph/crates"
# Entries that stay when another is added: a branch or two with other dependencies.
ENTRIES_MAX = 3
# How many times in a row an entry may begin with one of another key.
GENERATIONS_MAX = 4
# In an entry, and in a target directory that was seeded with it: the number of its generation.
GENERATION = ".crate-cache-generation"
# A folder of cargo's for one unit: the package's name and a hash, which its artefacts carry, too.
UNIT = re.compile(r"^(?P<package>.+)-(?P<hash>[0-9a-f]{16})$")


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def key():
    digest = hashlib.sha256(output("rustc", "-vV"))
    for name in ("Cargo.lock", "Cargo.toml"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()[:16]


def own_packages():
    metadata = output("cargo", "metadata", "--format-version", "1", "--no-deps", "--offline")
    return {package["name"] for package in json.loads(metadata)["packages"]}


def profiles(directory):
    """Folders of a target directory that hold the units of one profile, for example `release`."""
    for fingerprints in sorted(directory.glob("**/.fingerprint")):
        yield fingerprints.parent.relative_to(directory)


def units(source, own):
    """Paths below `source` of everything that belongs to one third-party unit, unit by unit."""
    for profile in profiles(source):
        artefacts = {}
        for path in (source / profile / "deps").iterdir():
            found = re.search(r"-([0-9a-f]{16})(?:\.|$)", path.name)
            if found:
                artefacts.setdefault(found[1], []).append(path)
        for fingerprint in (source / profile / ".fingerprint").iterdir():
            unit = UNIT.match(fingerprint.name)
            if not unit or unit["package"] in own:
                continue
            build = source / profile / "build" / fingerprint.name
            paths = [*artefacts.get(unit["hash"], []), *([build] if build.exists() else [])]
            # The fingerprint last: without it cargo does not consider the unit complete.
            yield [path.relative_to(source) for path in [*paths, fingerprint]]


def is_same(source, target, paths):
    """Whether the artefacts of a unit are the same files: a copy keeps size and time."""
    for path in paths:
        if path.suffix in (".rlib", ".rmeta", ".so") and (target / path).exists():
            ours, theirs = (source / path).stat(), (target / path).stat()
            if (ours.st_size, ours.st_mtime_ns) != (theirs.st_size, theirs.st_mtime_ns):
                return False
    return True


def copy_missing(source, target, own):
    """Copies the units that `target` lacks; returns how many. Copies none if one would not fit."""
    missing = []
    for paths in units(source, own):
        if not (target / paths[-1]).exists():
            missing.append(paths)
        elif not is_same(source, target, paths):
            return 0
    for paths in missing:
        for path in paths:
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if (source / path).is_dir():
                shutil.copytree(source / path, place, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(source / path, place, follow_symlinks=False)
    return len(missing)


@contextmanager
def locked(mode):
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, mode)
        yield


def entries():
    """All entries, the newest one last."""
    found = [path for path in CACHE.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def generation(directory):
    try:
        return int((directory / GENERATION).read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0


def entry_to_seed():
    """The entry of this key, or for an empty target directory another one; with its generation."""
    entry = CACHE / key()
    if entry.is_dir():
        return entry, generation(entry)
    others = [path for path in entries() if generation(path) < GENERATIONS_MAX]
    if not others or any(profiles(TARGET)):
        return None, 0
    # The fullest one: the newest may have been saved by a single command.
    fullest = max(others, key=lambda path: sum(1 for _ in path.glob("**/.fingerprint/*")))
    return fullest, generation(fullest) + 1


def seed():
    with locked(fcntl.LOCK_SH):
        entry, number = entry_to_seed()
        if not entry:
            return
        count = copy_missing(entry, TARGET, own_packages())
        if count:
            (TARGET / GENERATION).write_text(f"{number}\n", encoding="ascii")
            print(f"crate-cache: {count} compiled third-party crates from {entry}")


def save():
    entry, own = CACHE / key(), own_packages()
    with locked(fcntl.LOCK_EX):
        # Created under another name and renamed: an interrupted run must not leave a cache that
        # looks complete.
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=".new-") as work:
            new = Path(work) / "entry"
            if entry.is_dir():
                shutil.copytree(entry, new, symlinks=True, copy_function=os.link)
            else:
                new.mkdir()
            count = copy_missing(TARGET, new, own)
            if not count:
                return
            (new / GENERATION).unlink(missing_ok=True)
            (new / GENERATION).write_text(f"{generation(TARGET)}\n", encoding="ascii")
            if entry.is_dir():
                entry.rename(Path(work) / "old")
            new.rename(entry)
        print(f"crate-cache: {count} compiled third-party crates to {entry}")
        for old in entries()[:-ENTRIES_MAX]:
            shutil.rmtree(old)


def main():
    actions = {"seed": seed, "save": save}
    if len(sys.argv) != 2 or sys.argv[1] not in actions:
        sys.exit("usage: scripts/crate-cache.py seed|save")
    actions[sys.argv[1]]()


if __name__ == "__main__":
    main()
