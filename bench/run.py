#!/usr/bin/env python3
"""Runs the benchmarks and prints one table, targets beside the figures.

Reported, not asserted: whether a figure meets its target is for the reader to judge, on a
machine whose load the reader knows. What each figure means is in the README of its folder.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*command, **options):
    # Errors are printed to stderr, and end the run.
    options = {"check": True, "text": True, "cwd": ROOT, "stdout": subprocess.PIPE} | options
    return subprocess.run([str(word) for word in command], **options).stdout


def instructions():
    """The counts of the gate of `make test`."""
    counted = json.loads(run("scripts/instructions.py", "--json"))
    units = {"probe_pair": ("probe: start and end of a statement", "instructions"),
             "point_select": ("plugin: its calls for a point select", "instructions")}  # fmt: skip
    rows = []
    for name, count in counted.items():
        what, unit = units.get(name, (name.replace("_", ": "), "instructions/line"))
        rows.append((what, f"{count:,} {unit}", ""))
    return rows


def probe():
    """ns of a start and an end, in the calling thread."""
    run("cargo", "build", "--quiet", "--profile", "inproc", "-p", "tacho-embed", "-p", "tacho-cost")
    program = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "inproc/tacho-cost"
    rows = []
    for line in run(program, "probe", "time", "1", "2", "64").splitlines():
        load, median, tail = re.search(r"  (\w.*?) +median (\d+) ns.* p99\.9 (\d+) ns", line).groups()
        threads = re.search(r"threads +(\d+)", line)[1]
        target = "" if load == "no calls" else "≤ 150 ns, 1,000 ns"
        what = f"probe: start and end, {threads} threads, {load}: median, p99.9"
        rows.append((what, f"{median} ns, {tail} ns", target))
    return rows


def loggers():
    """2 M records of 200 bytes by each way of writing them."""
    with tempfile.TemporaryDirectory() as work:
        # The complete table goes to stderr.
        run("bench/loggers/measure.py", f"--summary={work}/summary", stdout=sys.stderr)
        medians = [json.loads(line) for line in open(f"{work}/summary")]
    rows = []
    for row in medians:
        if (row["records"], row["record_bytes"], row["think_ns"]) != (2_000_000, 200, 0):
            continue
        threads = f"{row['threads']:.0f} thread{'s' if row['threads'] > 1 else ''}"
        figure = f"{row['in_file_s']:.2f} s, CPU {row['cpu_s']:.2f} s"
        target = "≤ 1 s" if row["variant"] == "tacho" else ""
        rows.append((f"2 M records of 200 B, {threads}, {row['variant']}", figure, target))
    return rows


def writer():
    text = run("bench/writer/measure.sh")
    print(text, file=sys.stderr)
    rows = []
    for shape, rate, size in re.findall(
        r"^(\w+) +median +([\d.]+) M records/s.*?\((\d+ B/record, \d+ B/line)", text, re.M
    ):
        # The last "select" is the one on disk.
        place = "disk" if any(shape in row[0] for row in rows) else "tmpfs"
        rows.append((f"writer: {shape}, {place} ({size})", f"{rate} M records/s", "≥ 1.5 M"))
    return rows


def digest():
    """MB/s of statements that are new to the writer's caches, all of one shape."""
    run("cargo", "build", "--quiet", "--profile", "inproc", "-p", "tacho-sql", "--example", "speed")
    program = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "inproc/examples/speed"
    rows = []
    for kind, rate, size in re.findall(r"^(\w+) +(\d+) MB/s +(\d+) bytes", run(program), re.M):
        rows.append((f"digest: {kind}, {int(size):,} B each", f"{rate} MB/s", "≥ 500 MB/s"))
    return rows


def point_select():
    text = run("bench/point-select/measure.py", "--json")
    results = {result["variant"]: result for result in map(json.loads, text.splitlines())}
    none = results.pop("none")
    rows = [("point select, no audit", f"{none['process']} instructions", "")]
    for variant, result in results.items():
        targets = {"tacho": ("≤ 2,800", "≤ 6,000")}.get(variant, ("", ""))
        for name, target in zip(("query", "process"), targets):
            where = "query thread" if name == "query" else "process"
            added = result[name] - none[name]
            rows.append((f"point select, {variant}: added in the {where}", f"{added:,}", target))
    return rows


def main():
    for program in ("valgrind", "taskset", "mariadbd"):
        os.environ["PATH"] += ":/usr/sbin"
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed")
    rows = instructions() + probe() + writer() + digest() + loggers() + point_select()
    width = max(len(row[0]) for row in rows)
    print("reported, not asserted".ljust(width) + "  " + "figure".rjust(24) + "  target")
    for what, figure, target in rows:
        print(f"{what.ljust(width)}  {figure:>24}  {target}")


if __name__ == "__main__":
    main()
