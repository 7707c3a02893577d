#!/usr/bin/env python3
"""Processor time of a point select with two builds of the plugin, in two servers at a time.

`tacho bench --side-by-side` compares a method with a server that has none. This compares two builds
in the same way, to see whether a change of the code is worth it: their loads take turns of 50 ms,
and the builds exchange their data directories after half of the blocks. `none` is no plugin; the
same build twice (A/A) shows what remains of the machine's noise.

    bench/point-select/builds.py [--threads 64] [--blocks 20] [--seconds 3] BUILD BUILD

BUILD is a `tacho.so`, with options of the server behind it, after commas.
"""

import argparse
import itertools
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import measure

TURN_S = 0.05
# The recorder's threads write what is left, and then sleep.
SETTLE_S = 0.3
RESAMPLES = 2_000


class Side:
    """A server with a load of its own, stopped unless it has its turn."""

    def __init__(self, directory, template, build, threads):
        self.directory, self.socket = directory, directory / "socket"
        shutil.copytree(template, directory / "data")
        plugins = directory / "plugins"
        plugins.mkdir()
        library, *options = build.split(",")
        if library != "none":
            shutil.copy(library, plugins / "tacho.so")
            options.insert(0, "--plugin-load-add=tacho.so")
        self.server = subprocess.Popen([
            "mariadbd", "--no-defaults", "--user=root", "--skip-networking",
            f"--datadir={directory}/data", f"--tmpdir={directory}", f"--socket={self.socket}",
            f"--plugin-dir={plugins}", f"--pid-file={directory}/pid",
            f"--log-error={directory}/error.log", "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=16M", "--performance-schema=OFF", "--table-open-cache=400",
            *options,
        ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        deadline = time.monotonic() + measure.DEADLINE_S
        while not self.is_up():
            if time.monotonic() > deadline:
                self.server.terminate()
                raise SystemExit(f"the server in {directory} did not start")
            time.sleep(0.1)
        self.load = subprocess.Popen([
            "sysbench", "oltp_point_select", f"--mysql-socket={self.socket}", "--mysql-user=root",
            "--mysql-db=bench", "--tables=1", "--table-size=10000", "--db-ps-mode=disable",
            f"--threads={threads}", "--events=0", "--time=0", "run",
        ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        time.sleep(1)
        self.pause()

    def is_up(self):
        if self.server.poll() is not None:
            raise SystemExit((self.directory / "error.log").read_text())
        return self.socket.exists()

    def pause(self):
        self.load.send_signal(signal.SIGSTOP)

    def resume(self):
        if self.load.poll() is not None:
            raise SystemExit(f"the load of {self.directory} has ended")
        self.load.send_signal(signal.SIGCONT)

    def figures(self):
        """Processor time of the server's threads in ns, and queries answered."""
        tasks = Path(f"/proc/{self.server.pid}/task").iterdir()
        busy_ns = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
        status = measure.run("mariadb", "--no-defaults", "-BN", "-uroot",
                             f"--socket={self.socket}", "-e",
                             "SHOW GLOBAL STATUS LIKE 'Com_select'",
                             stdout=subprocess.PIPE).stdout  # fmt: skip
        return busy_ns, int(status.split()[1])

    def stop(self):
        for process in (self.load, self.server):
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(measure.DEADLINE_S)


def block(sides, seconds):
    """Microseconds of a query for each side."""
    time.sleep(SETTLE_S)
    before = [side.figures() for side in sides]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for side in sides:
            side.resume()
            time.sleep(TURN_S)
            side.pause()
    time.sleep(SETTLE_S)
    after = [side.figures() for side in sides]
    return [(a[0] - b[0]) / (a[1] - b[1]) / 1_000 for a, b in zip(after, before)]


def half(builds, work, template, arguments):
    """Blocks with the first build in the first directory; each is a figure for each build."""
    sides = []
    try:
        for number, build in enumerate(builds):
            directory = work / str(number)
            directory.mkdir()
            sides.append(Side(directory, template, build, arguments.threads))
        block(sides, 1)
        return [block(sides, arguments.seconds) for _ in range(arguments.blocks)]
    finally:
        for side in sides:
            side.stop()
        for number in range(len(builds)):
            shutil.rmtree(work / str(number), ignore_errors=True)


def center(values):
    """Hodges and Lehmann's: the median of the means of all pairs."""
    pairs = itertools.combinations_with_replacement(values, 2)
    return statistics.median((one + other) / 2 for one, other in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=20, help="in each half")
    parser.add_argument("--seconds", type=float, default=3, help="length of a block")
    parser.add_argument("build", nargs=2)
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    one, other = arguments.build
    with tempfile.TemporaryDirectory(prefix="tacho-builds-") as work:
        work = Path(work)
        template = measure.fill_template(work)
        straight = half([one, other], work, template, arguments)
        crossed = half([other, one], work, template, arguments)
    pairs = straight + [pair[::-1] for pair in crossed]
    for number, build in enumerate(arguments.build):
        print(f"{statistics.median(pair[number] for pair in pairs):8.2f} us  {build}")
    # A block of each half, so that what differs between the directories cancels out.
    logs = [(math.log(a[1] / a[0]) + math.log(b[0] / b[1])) / 2 for a, b in zip(straight, crossed)]
    chance = random.Random(1)
    centers = sorted(center(chance.choices(logs, k=len(logs))) for _ in range(RESAMPLES))
    low, high = centers[RESAMPLES // 40], centers[-RESAMPLES // 40]
    print(f"{math.exp(center(logs)):8.3f}     ratio ({math.exp(low):.3f} to {math.exp(high):.3f})")


if __name__ == "__main__":
    main()
