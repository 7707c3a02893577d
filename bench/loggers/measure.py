#!/usr/bin/env python3
"""The arena and its writer beside other ways of writing records: see README.md.

Each measurement is a process of its own (main.cc). The variants take turns, each round in
another order, and each is compared with tacho of the same round: the median of these ratios
is what changes least with the load of the machine. tacho runs twice in each round: the ratio
of the two, `again`, is the error of the method.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PROGRAM = ROOT / "build/bench/loggers"
AGAIN = "again"
# Enough for 200,000 records a second, which all of them can take.
THINK_NS, PACED_RECORDS = 5_000, 200_000
# Ratios are of this and of the processor time.
TIME = "in_file_s"


def numbers(text):
    return [int(word) for word in text.split(",")]


def run(variant, cell, directory, realtime):
    """One measurement."""
    record_bytes, records, threads, think_ns = cell
    before = ["chrt", "--rr", "1"] if realtime else []
    # New and empty: no variant pays for what another one has left.
    with tempfile.TemporaryDirectory(prefix="loggers-", dir=directory) as log:
        command = [*before, PROGRAM, "tacho" if variant == AGAIN else variant,
                   record_bytes, records, threads, log, think_ns]  # fmt: skip
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr}")
    result = json.loads(done.stdout)
    result["cpu_s"] = result["producers_cpu_s"] + result["writer_cpu_s"]
    return result | {"variant": variant, "think_ns": think_ns}


def measure(cell, variants, options, tell):
    """Results of each variant, one for each round."""
    results = {variant: [] for variant in variants}
    for number in range(options.rounds):
        start = number % len(variants)
        for variant in variants[start:] + variants[:start]:
            result = run(variant, cell, options.directory, options.realtime) | {"round": number}
            results[variant].append(result)
            tell(result)
    return results


def summary(results):
    """The medians of each variant, and of its ratios to tacho."""
    rows = {}
    for variant, runs in results.items():
        row = {key: statistics.median(run[key] for run in runs)
               for key, value in runs[0].items() if key != "variant"}  # fmt: skip
        for name, key in (("time", TIME), ("cpu", "cpu_s")):
            row[f"{name}_ratio"] = statistics.median(
                run[key] / tacho[key] for run, tacho in zip(runs, results["tacho"])
            )
        rows[variant] = row
    return rows


COLUMNS = [
    # Title, width, and what is in it.
    ("accepted", 9, lambda r: f"{r['accepted_s']:.2f} s"),
    ("in file", 9, lambda r: f"{r['in_file_s']:.2f} s"),
    ("/tacho", 7, lambda r: f"{r['time_ratio']:.2f}"),
    ("records/s", 10, lambda r: f"{r['records'] / r['in_file_s'] / 1e6:.2f} M"),
    ("MB/s", 6, lambda r: f"{r['file_bytes'] / r['in_file_s'] / 1e6:.0f}"),
    ("B/line", 7, lambda r: f"{r['file_bytes'] / r['records']:.0f}"),
    ("ns p50", 8, lambda r: f"{r['call_ns_p50']:,.0f}"),
    ("p99", 11, lambda r: f"{r['call_ns_p99']:,.0f}"),
    ("p99.9", 12, lambda r: f"{r['call_ns_p999']:,.0f}"),
    ("CPU: calls", 11, lambda r: f"{r['producers_cpu_s']:.2f} s"),
    ("writer", 8, lambda r: f"{r['writer_cpu_s']:.2f} s"),
    ("kernel", 8, lambda r: f"{r['kernel_cpu_s']:.2f} s"),
    ("/tacho", 7, lambda r: f"{r['cpu_ratio']:.2f}"),
    ("MiB", 6, lambda r: f"{r['resident_kib'] / 1024:.0f}"),
]


def show(cell, rows):
    record_bytes, records, threads, think_ns = cell
    pace = f", {think_ns / 1000:.0f} µs between calls" if think_ns else ""
    print(f"\n{records / 1e6:g} M records of {record_bytes} bytes, "
          f"{threads} thread{'s' if threads > 1 else ''}{pace}")  # fmt: skip
    width = max(map(len, rows))
    print(" " * width + "".join(title.rjust(size) for title, size, _ in COLUMNS))
    for variant, row in rows.items():
        print(variant.ljust(width) + "".join(f(row).rjust(size) for _, size, f in COLUMNS))
    sys.stdout.flush()


class Others:
    """How busy other processes have kept the machine."""

    def __init__(self):
        self.start = self.read()

    @staticmethod
    def read():
        ticks = numbers(Path("/proc/stat").read_text().split("\n")[0].split(None, 1)[1].replace(" ", ","))
        user, nice, system, idle, iowait, irq, softirq, steal = ticks[:8]
        own = sum(os.times()[:4]) * os.sysconf("SC_CLK_TCK")
        busy = user + nice + system + irq + softirq + steal
        return busy - own, busy + idle + iowait

    def share(self):
        busy, total = (now - then for now, then in zip(self.read(), self.start))
        return max(busy, 0) / max(total, 1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=numbers, default=[100, 150, 200], metavar="B,…")
    parser.add_argument("--records", type=numbers, default=[1_000_000, 2_000_000], metavar="N,…")
    parser.add_argument("--threads", type=numbers, default=[1, 16], metavar="N,…")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", default=ROOT / "build/bench", help="where the logs go")
    parser.add_argument("--realtime", action="store_true",
                        help="let nothing else run meanwhile (root; the machine hangs for seconds)")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="each measurement as a line")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="the medians as JSON lines")
    parser.add_argument("variants", nargs="*", help="default: all that are built in")
    return parser.parse_args()


def main():
    options = arguments()
    fetched = subprocess.run([HERE / "fetch_quill.sh"]) if "QUILL_INCLUDE" not in os.environ else None
    if fetched is not None and fetched.returncode != 0:
        print("loggers: continuing without Quill", file=sys.stderr)
    subprocess.run([HERE / "build.sh"], check=True)
    known = subprocess.run([PROGRAM, "--list"], check=True, text=True, stdout=subprocess.PIPE)
    known = known.stdout.split()
    if unknown := set(options.variants) - set(known):
        sys.exit(f"not built in: {', '.join(unknown)}")
    variants = [name for name in options.variants or known if name != "tacho"]
    variants = ["tacho", AGAIN, *variants]
    cells = [(record_bytes, records, threads, 0)
             for record_bytes in options.bytes
             for records in options.records
             for threads in options.threads]  # fmt: skip
    # The cost of a call when no thread has to wait for a writer.
    cells.append((max(options.bytes), PACED_RECORDS, 1, THINK_NS))
    log = options.json.open("w") if options.json else None

    def tell(result):
        print(f"loggers: {result['record_bytes']} B x {result['records']}, {result['threads']} "
              f"threads, round {result['round'] + 1}, {result['variant']}: "
              f"{result[TIME]:.2f} s", file=sys.stderr)  # fmt: skip
        if log:
            print(json.dumps(result), file=log, flush=True)

    others = Others()
    medians = options.summary.open("w") if options.summary else None
    for cell in cells:
        rows = summary(measure(cell, variants, options, tell))
        show(cell, rows)
        if medians:
            for variant, row in rows.items():
                print(json.dumps({"variant": variant} | row), file=medians, flush=True)
    share = others.share()
    print(f"\nMedians of {options.rounds} rounds, {os.cpu_count()} processors; other processes "
          f"used {share:.0%} of them.")  # fmt: skip
    if share > 0.05 and not options.realtime:
        print("Too much for the times above: only ratios and processor time say something.")
    if missing := {"spdlog", "quill"} - set(known):
        print(f"Not installed, and not in the tables: {', '.join(sorted(missing))}.")


if __name__ == "__main__":
    main()
