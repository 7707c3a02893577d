#!/usr/bin/env python3
"""Counts the instructions of what must stay cheap, and compares with bench/instructions.toml.

    scripts/instructions.py            print a table; fail if a figure is above its limit
    scripts/instructions.py --update   write what was counted into bench/instructions.toml
    scripts/instructions.py --json     print what was counted as one JSON object

Time depends on the machine and its load, instructions do not: two runs of the same build count
the same, so a few per cent are significant. Counted by callgrind, in user space. Names of
figures as arguments: only these. Needs `make build` for point_select.
"""

import argparse
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / "bench/instructions.toml"
# Callgrind's files stay here, to see where the instructions are.
PROFILES = ROOT / "build/instructions"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# As in bench/cost/src/probe.rs.
PAIRS = 10_000
MIB = 1 << 20

WHAT = {
    "rewrite_miss": "asking 5,000 rules that rewrite about a point select that none matches",
    "rewrite_first": "the same for a statement whose form was not seen before",
    "rewrite_hit": "the same where a rule matches, without the server's allocation",
    "probe_pair": "start and end of a statement, from the probe's C functions to the arena",
    "point_select": "all calls of the plugin for one point select, in its thread",
    "point_select_skipped": "the same, of one that no rule of the filter wants",
    "writer_select": "a line of the log, of a point select",
    "writer_literals": "a line of the log, of a point select whose text is new",
    "writer_join": "a line of the log, of a statement of 200 bytes over TCP",
    "writer_point": "a line of the log, of one record",
}


def run(*command, **options):
    options = {"check": True, "text": True, "cwd": ROOT, "stdout": subprocess.PIPE} | options
    return subprocess.run([str(word) for word in command], **options).stdout


@functools.cache
def program():
    # As it is built into the plugin: one optimised unit. Together with the plugin's library, or
    # cargo compiles everything once more, without what an archive needs.
    run("cargo", "build", "--quiet", "--profile", "inproc", "-p", "tacho-embed", "-p", "tacho-cost")
    return TARGET / "inproc/tacho-cost"


def collected(figure, function, *command):
    """What a program printed, with its instructions inside `function`."""
    out = PROFILES / f"{figure}.callgrind"
    text = run("valgrind", "--tool=callgrind", f"--toggle-collect={function}",
               f"--callgrind-out-file={out}", *command, stderr=subprocess.STDOUT)  # fmt: skip
    return text, int(re.search(r"Collected : (\d+)", text)[1])


def probe_pair():
    _, count = collected("probe_pair", "cost_of_pairs",
                         program(), "probe", "count")  # fmt: skip
    return count / PAIRS


def rewrite(which):
    text, count = collected(f"rewrite_{which}", "cost_of_rewrites",
                            program(), "rewrite", which)  # fmt: skip
    return count / int(re.search(r"(\d+) statements", text)[1])


def writer(shape):
    rounds = []
    # The fixed cost of a round cancels out: the larger less the smaller.
    for arena_bytes in (8 * MIB, 16 * MIB):
        with tempfile.TemporaryDirectory(dir=PROFILES) as log:
            text, count = collected(f"writer_{shape}", "measured_round",
                                    program(), "writer", shape, log, 1,
                                    arena_bytes)  # fmt: skip
        rounds.append((count, int(re.search(r"(\d+) lines per round", text)[1])))
    (small, small_lines), (large, large_lines) = rounds
    return (large - small) / (large_lines - small_lines)


def point_select(variant):
    return float(run(ROOT / "bench/point-select/measure.py", "--plugin-only", variant))


MEASURE = {
    "probe_pair": probe_pair,
    "rewrite_miss": lambda: rewrite("miss"),
    "rewrite_first": lambda: rewrite("first"),
    "rewrite_hit": lambda: rewrite("hit"),
    "point_select": lambda: point_select("tacho"),
    "point_select_skipped": lambda: point_select("tacho-skip"),
    "writer_select": lambda: writer("select"),
    "writer_literals": lambda: writer("literals"),
    "writer_join": lambda: writer("join"),
    "writer_point": lambda: writer("point"),
}


def version(*command):
    return re.search(r"\d+\.\d+\.\d+", run(*command))[0]


def made_with():
    """What changes the counts without a change of ours."""
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return {
        "rustc": version("rustc", "--version"),
        "gcc": version("g++", "-dumpfullversion"),
        "mariadb": version("mariadbd", "--version"),
        "valgrind": version("valgrind", "--version"),
        # callgrind emulates a processor with AVX2 or an older one, whatever the machine has: the
        # choice of the C library's memcpy() depends on nothing else.
        "avx2": "avx2" in (flags[1].split() if flags else ()),
    }


def write(limits, counted, made):
    limits["made_with"] = made
    limits["instructions"] |= counted
    text = "".join(line for line in LIMITS.read_text().splitlines(True) if line[0] == "#")
    for name in ("tolerance_percent", "tolerance_percent_elsewhere"):
        text += f"{name} = {limits[name]}\n"
    for table in ("made_with", "instructions"):
        text += f"\n[{table}]\n"
        # Numbers and booleans as in JSON; the strings here need no escape.
        text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in limits[table].items())
    LIMITS.write_text(text)


def compare(limits, counted, made):
    """Prints the table; returns whether all is within its limit."""
    tolerance = limits["tolerance_percent"]
    others = [f"{name} {value}, not {limits['made_with'].get(name)}"
              for name, value in made.items() if value != limits["made_with"].get(name)]  # fmt: skip
    if others:
        tolerance = limits["tolerance_percent_elsewhere"]
        print(f"The limits were counted with other tools (here: {'; '.join(others)}):\n"
              f"{tolerance} % are allowed instead of {limits['tolerance_percent']} %.")  # fmt: skip
    above, below = [], []
    print(f"{'instructions':21}{'limit':>8}{'counted':>9}{'change':>9}")
    for name, count in counted.items():
        limit = limits["instructions"].get(name)
        if limit is None:
            above.append(name)
            print(f"{name:21}{'none':>8}{count:9,}{'':9}  {WHAT[name]}")
            continue
        change = (count / limit - 1) * 100
        if change > tolerance:
            above.append(name)
        elif change < -tolerance:
            below.append(name)
        print(f"{name:21}{limit:8,}{count:9,}{change:+8.1f} %  {WHAT[name]}")
    where = LIMITS.relative_to(ROOT)
    if below:
        print(f"Cheaper than {where} says: {', '.join(below)}.\n"
              "Run `scripts/instructions.py --update` and commit it, so that it stays so.")  # fmt: skip
    if above:
        print(f"More than {tolerance} % above {where}, or not in it: {', '.join(above)}.\n"
              f"Where: callgrind_annotate {PROFILES.relative_to(ROOT)}/{above[0]}.callgrind,"
              " compared with the same of the commit before.\n"
              "If it must cost that, run `scripts/instructions.py --update`, commit the file,"
              " and say why in the message.", file=sys.stderr)  # fmt: skip
    return not above


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--update", action="store_true", help=f"write {LIMITS.relative_to(ROOT)}")
    mode.add_argument("--json", action="store_true", help="print the counts as JSON, compare nothing")
    parser.add_argument("figures", nargs="*", choices=[*MEASURE, []], help="default: all")
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    for program in ("valgrind", "mariadbd"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed")
    PROFILES.mkdir(parents=True, exist_ok=True)
    counted = {}
    for name in arguments.figures or MEASURE:
        print(f"counting {name} …", file=sys.stderr, flush=True)
        counted[name] = round(MEASURE[name]())
    if arguments.json:
        print(json.dumps(counted))
        return
    limits = tomllib.loads(LIMITS.read_text())
    made = made_with()
    if arguments.update:
        write(limits, counted, made)
    if not compare(limits, counted, made):
        sys.exit(1)


if __name__ == "__main__":
    main()
