#!/usr/bin/env python3
"""Cache misses that auditing adds to a point select with many connections, simulated.

The throughput of an audited server does not only depend on the number of added instructions: with
many sessions on a processor, the code and memory of one statement have been pushed out of its
caches when the next one of the same session comes. Virtual machines rarely have counters that
show it, so callgrind simulates the caches of one processor that runs all threads in turn
(--fair-sched): 32 KiB of code, 48 KiB of data, and a second level of 2 MiB for both.

    bench/point-select/caches.py [--threads 64] [VARIANT ...]

Prints what a query needs, and what each variant adds to it. Some minutes for each variant.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import measure

ROOT = measure.ROOT
CALLGRIND = ("--cache-sim=yes", "--I1=32768,8,64", "--D1=49152,12,64", "--LL=2097152,16,64",
             "--fair-sched=yes")  # fmt: skip
WARM_UP, COUNTED = 4_000, 12_000
# callgrind's names for what is shown.
SHOWN = {
    "Ir": "instructions",
    "I1mr": "code, 1st level",
    "D1mr": "reads, 1st level",
    "D1mw": "writes, 1st level",
    "ILmr": "code, 2nd level",
    "DLmr": "reads, 2nd level",
    "DLmw": "writes, 2nd level",
}


def point_selects(server, threads, events):
    measure.run("sysbench", "oltp_point_select", f"--mysql-socket={server.socket}", "--mysql-user=root",
                "--mysql-db=bench", "--tables=1", "--table-size=10000", "--db-ps-mode=disable",
                f"--threads={threads}", f"--events={events}", "--time=0", "run",
                stdout=subprocess.DEVNULL)  # fmt: skip


def events_of(path):
    text = path.read_text()
    names = re.search(r"^events: (.*)$", text, re.M)[1].split()
    counts = map(int, re.findall(r"^(?:totals|summary): (.*)$", text, re.M)[-1].split())
    return dict(zip(names, counts))


def count(variant, threads, template, plugins, work):
    """Events for each query, of the whole process."""
    directory = work / variant
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("variants", nargs="*", choices=[*measure.VARIANTS, []])
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    variants = ["none", *(arguments.variants or ["nothing", "tacho", "server_audit"])]
    results = {}
    with tempfile.TemporaryDirectory(prefix="tacho-caches-") as work:
        work = Path(work)
        plugins, template = measure.prepare(work)
        for variant in variants:
            print(f"counting {variant} …", file=sys.stderr, flush=True)
            results[variant] = count(variant, arguments.threads, template, plugins, work)
    print(f"for each query, {arguments.threads} connections, all threads of the server")
    print(f"{'':20}" + "".join(f"{variant:>16}" for variant in variants))
    for name, shown in SHOWN.items():
        none = results["none"][name]
        cells = [f"{none:,.1f}", *(f"{results[v][name] - none:+,.1f}" for v in variants[1:])]
        print(f"{shown:20}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main()
