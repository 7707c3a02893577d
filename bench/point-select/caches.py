#!/usr/bin/env python3
"""Cache misses that auditing adds to a point select with many connections, simulated.

The throughput of an audited server does not only depend on the number of added instructions: with
many sessions on a processor, the code and memory of one statement have been pushed out of its
caches when the next one of the same session comes. Virtual machines rarely have counters that
show it, so callgrind simulates the caches of one processor that runs all threads in turn
(--fair-sched): 32 KiB of code, 48 KiB of data, and a second level of 2 MiB for both.

    bench/point-select/caches.py [--threads 64] [--runs 3] [VARIANT ...]

Prints what a query needs, and what each variant adds to it: medians of the runs, and the lowest and
the highest. Where the server allocates differs from run to run, and its own misses of the second
level with it: do not compare single runs. A round of the writer looks at the whole arena; with
`tacho` 50 queries share one, with `tacho-paced-sealed` as many as on a busy server.
Some minutes for each variant and run.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import measure

ROOT = measure.ROOT
CALLGRIND = ("--cache-sim=yes", "--I1=32768,8,64", "--D1=49152,12,64", "--LL=2097152,16,64",
             "--fair-sched=yes")  # fmt: skip
WARM_UP, COUNTED = 4_000, 12_000
# Behind a name: only in the plugin's own code.
OWN = " in the plugin"
# callgrind's names for what is shown.
SHOWN = {
    "Ir": "instructions",
    "I1mr": "code, 1st level",
    "D1mr": "reads, 1st level",
    "D1mw": "writes, 1st level",
    "ILmr": "code, 2nd level",
    "DLmr": "reads, 2nd level",
    "DLmw": "writes, 2nd level",
    "DLmr" + OWN: "reads of the plugin",
    "DLmw" + OWN: "writes of the plugin",
}


def point_selects(server, threads, events):
    measure.run("sysbench", "oltp_point_select", f"--mysql-socket={server.socket}", "--mysql-user=root",
                "--mysql-db=bench", "--tables=1", "--table-size=10000", "--db-ps-mode=disable",
                f"--threads={threads}", f"--events={events}", "--time=0", "run",
                stdout=subprocess.DEVNULL)  # fmt: skip


def events_of(path):
    """Events of the process, and of the plugin's own code: the name with OWN behind it."""
    names, seen, objects = [], Counter(), {}
    is_own = is_call = False
    for line in path.read_text().splitlines():
        if line.startswith("events: "):
            names = line.split()[1:]
        elif object_of := re.match(r"ob=\((\d+)\)(?: (.*))?|cob=\((\d+)\) (.*)", line):
            number, name, called, called_name = object_of.groups()
            objects |= {number: name} if name else {called: called_name} if called else {}
            if number:
                is_own = objects[number].endswith(("/tacho.so", "/server_audit.so", "/nothing.so"))
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"[-+*\d]", line):
            # The line behind `calls=` has the cost of the called function, which is elsewhere, too.
            if not is_call:
                for name, count in zip(names, line.split()[1:]):
                    seen[name] += int(count)
                    seen[name + OWN] += int(count) * is_own
            is_call = False
    return seen


def count(variant, threads, template, plugins, directory):
    """Events for each query, of the whole process."""
    directory.mkdir()
    shutil.copytree(template, directory / "data")
    server = measure.Server(directory, plugins, measure.VARIANTS[variant], CALLGRIND)
    # Connecting is in both parts, and cancels out.
    seen = []
    for events in (WARM_UP, WARM_UP, WARM_UP + COUNTED):
        server.control("--zero")
        point_selects(server, threads, events)
        server.control("--dump")
        dumped = Path(f"{directory}/callgrind.{server.process.pid}.{len(seen) + 1}")
        measure.wait_for(lambda: dumped.exists() and re.search(r"^totals: .*\n", dumped.read_text(), re.M))
        seen.append(events_of(dumped))
    server.stop()
    _, short, long = seen
    return {name: (long[name] - short[name]) / COUNTED for name in SHOWN}


def added(results, variant, name):
    """What a variant adds, as a cell: the medians, and between which the runs are."""
    seen = [result[name] for result in results[variant]]
    sign, base = "", 0
    if variant != "none":
        sign, base = "+", statistics.median(result[name] for result in results["none"])
    cell = f"{statistics.median(seen) - base:{sign},.1f}"
    if len(seen) == 1:
        return cell
    return f"{cell} ({min(seen) - base:{sign},.0f} to {max(seen) - base:{sign},.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("variants", nargs="*", choices=[*measure.VARIANTS, []])
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    variants = ["none", *(arguments.variants or ["nothing", "tacho-paced-sealed", "server_audit"])]
    results = {variant: [] for variant in variants}
    with tempfile.TemporaryDirectory(prefix="tacho-caches-") as work:
        work = Path(work)
        plugins, template = measure.prepare(work)
        for run in range(arguments.runs):
            for variant in variants:
                print(f"counting {variant} …", file=sys.stderr, flush=True)
                directory = work / f"{variant}-{run}"
                seen = count(variant, arguments.threads, template, plugins, directory)
                results[variant].append(seen)
                shutil.rmtree(directory)
    print(f"for each query, {arguments.threads} connections, all threads of the server")
    print(f"{'':21}" + "".join(f"{variant:>34}" for variant in variants))
    for name, shown in SHOWN.items():
        cells = (added(results, variant, name) for variant in variants)
        print(f"{shown:21}" + "".join(f"{cell:>34}" for cell in cells))


if __name__ == "__main__":
    main()
