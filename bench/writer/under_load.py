#!/usr/bin/env python3
"""Processor time of the writer's thread for a line, beside a server that is busy.

A private MariaDB with the plugin and its defaults (digests, the seal) executes point selects of
sysbench. Needs `make build`.

    bench/writer/under_load.py [--threads 64] [--blocks 5] [--seconds 10] [PLUGIN]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/point-select"))
import builds  # noqa: E402
import measure  # noqa: E402

WRITER = "tacho-writer"


def writer(server):
    """Processor time of the writer's thread in ns."""
    for task in Path(f"/proc/{server.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == WRITER:
            return int((task / "schedstat").read_text().split()[0])
    raise SystemExit(f"the server has no thread {WRITER}")


def lines(side):
    """Lines in the log."""
    status = measure.run("mariadb", "--no-defaults", "-BN", "-uroot", f"--socket={side.socket}",
                         "-e", "SHOW GLOBAL STATUS LIKE 'Tacho_records_written'",
                         stdout=subprocess.PIPE).stdout  # fmt: skip
    return int(status.split()[1])


def block(side, seconds):
    """Microseconds for a line, and lines a second."""
    time.sleep(builds.SETTLE_S)
    before = writer(side.server), lines(side)
    side.resume()
    time.sleep(seconds)
    side.pause()
    time.sleep(builds.SETTLE_S)
    after = writer(side.server), lines(side)
    count = after[1] - before[1]
    return (after[0] - before[0]) / count / 1_000, count / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="length of a block")
    parser.add_argument("plugin", nargs="?", default=ROOT / "build/mariadb/tacho.so")
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    with tempfile.TemporaryDirectory(prefix="tacho-writer-") as work:
        work = Path(work)
        template = measure.fill_template(work)
        (work / "server").mkdir()
        side = builds.Side(work / "server", template, str(arguments.plugin), arguments.threads)
        try:
            blocks = [block(side, arguments.seconds) for _ in range(arguments.blocks)]
        finally:
            side.stop()
    times = [time_us for time_us, _ in blocks]
    print(f"{statistics.median(times):.2f} us a line ({min(times):.2f} to {max(times):.2f}), "
          f"{statistics.median(rate for _, rate in blocks):,.0f} lines/s")  # fmt: skip


if __name__ == "__main__":
    main()
