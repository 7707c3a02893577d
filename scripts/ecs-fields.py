#!/usr/bin/env python3
"""Writes crates/format/tests/fixtures/ecs-9.4.0.fields.txt: the published fields of the field sets
that `tacho convert --format ecs` writes to, with their types, one a line.

Usage: npm pack @elastic/ecs@9.4.0, unpack it, then scripts/ecs-fields.py UNPACKED/package/generated

Those are the types that Elastic makes from https://github.com/elastic/ecs, v9.4.0 (Apache-2.0).
Fields below a field that our lines do not have are left out.
"""

import re
import sys
from pathlib import Path

SETS = ["base", "ecs", "error", "event", "host", "related", "service", "source", "user"]
OUT = Path(__file__).parent.parent / "crates/format/tests/fixtures/ecs-9.4.0.fields.txt"
FIELD = re.compile(r"^\s*'?(@?\w+)'?(\?)?: (.*);$")
OPEN = re.compile(r"^\s*(\w+)\??: \{$")
INNER = {"effective"}


def fields(text, name):
    """Dotted names and types of an interface."""
    path = [] if name == "base" else [name]
    for line in text.splitlines():
        if opened := OPEN.match(line):
            path.append(opened.group(1))
        elif line.strip() in ("};", "}"):
            path = path[:-1]
        elif found := FIELD.match(line):
            inner = path[1:] if name != "base" else path
            if all(part in INNER for part in inner):
                need = "" if found.group(2) else " required"
                yield ".".join([*path, found.group(1)]) + " " + found.group(3) + need


def main():
    lines = ["# Made by scripts/ecs-fields.py from @elastic/ecs 9.4.0 (Apache-2.0)."]
    for name in SETS:
        lines += fields((Path(sys.argv[1]) / f"{name}.ts").read_text(encoding="utf-8"), name)
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
