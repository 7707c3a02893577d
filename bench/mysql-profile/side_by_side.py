#!/usr/bin/env python3
"""Processor time that recording, or rules that rewrite, add to a query of MySQL 9.7, on a machine
that others use, too.

Two private servers run at once, each with its own load; one has the component, the other has not,
and then the other way round. Whatever slows the machine down slows both, so that the ratio of
their processor times per query stays where it is while each of them drifts by a third.

Prints median and 95 % interval (bootstrap) of the ratios; `none` is a server without beside
another one without (A/A). See README.md.
"""

import argparse
import contextlib
import getpass
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tachograph"
DEADLINE_S = 120
# Until the pages are in memory, and the sessions are there.
WARM_UP_S = 3
COMPONENT = "file://component_tacho"
# The settings of a server for each state that has the component.
STATES = {
    "logging-off": ["SET GLOBAL tacho.logging = OFF"],
    "traces-off": ["SET GLOBAL tacho.traces = OFF", "SET GLOBAL tacho.logging = ON"],
    "changes": ["SET GLOBAL tacho.traces = CHANGES", "SET GLOBAL tacho.logging = ON"],
    "on": ["SET GLOBAL tacho.traces = ON", "SET GLOBAL tacho.logging = ON"],
    "rewrite": ["SET GLOBAL tacho.logging = OFF",
                "SELECT tacho_rewrite_load(1, 'SELECT ? FROM no_such_table', NULL, 'SELECT ?')"],
    "rewrite-1000": ["SET GLOBAL tacho.logging = OFF",
                     "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) "
                     "SELECT tacho_rewrite_load(n, CONCAT('SELECT c FROM no_such_table_', n, "
                     "' WHERE id = ?'), NULL, 'SELECT ?') FROM n"],
}
# Rules are kept for the next time.
NO_RULES = "SELECT tacho_rewrite_load(1, NULL, NULL, NULL)"
# MySQL's own plugin, which reads its rules when it is installed, and leaves when the server ends.
REWRITER = "rewriter"
REWRITER_RULES = [
    "CREATE DATABASE query_rewrite",
    "CREATE TABLE query_rewrite.rewrite_rules (id INT AUTO_INCREMENT PRIMARY KEY, "
    "pattern VARCHAR(5000) COLLATE utf8mb4_bin NOT NULL, "
    "pattern_database VARCHAR(20) COLLATE utf8mb4_bin, "
    "replacement VARCHAR(5000) COLLATE utf8mb4_bin NOT NULL, "
    "enabled ENUM('YES', 'NO') COLLATE utf8mb4_bin NOT NULL DEFAULT 'YES', "
    "message VARCHAR(1000) COLLATE utf8mb4_bin, "
    "pattern_digest VARCHAR(64), normalized_pattern VARCHAR(100))",
    "INSERT INTO query_rewrite.rewrite_rules (pattern, replacement) "
    "VALUES ('SELECT ? FROM no_such_table', 'SELECT ?')",
]


class Server:
    """A private server with its load."""

    def __init__(self, work, name, options):
        self.directory = work / name
        for directory in ("plugin", "log"):
            (self.directory / directory).mkdir(parents=True)
        usr = options.server_folder / "usr"
        plugins = usr / "lib/mysql/plugin"
        server_own = (plugins / "component_reference_cache.so", plugins / "rewriter.so")
        for library in (options.component, *server_own):
            shutil.copy(library, self.directory / "plugin")
        arguments = [
            "--no-defaults", f"--user={getpass.getuser()}", f"--basedir={usr}",
            f"--datadir={self.directory}/data", f"--log-error={self.directory}/error.log",
        ]
        mysqld = usr / "sbin/mysqld"
        subprocess.run([mysqld, *arguments, "--initialize-insecure"], check=True)
        self.socket = self.directory / "s"
        self.arenas = Path(tempfile.mkdtemp(prefix="tacho-bench-", dir="/dev/shm"))
        self.state = "none"
        self.client = self.load = self.process = None
        self.command = [
            mysqld, *arguments, f"--plugin-dir={self.directory}/plugin", f"--socket={self.socket}",
            f"--pid-file={self.directory}/pid", "--skip-networking", "--mysqlx=OFF",
            "--secure-file-priv=", f"--max-connections={options.threads + 20}",
            "--innodb-buffer-pool-size=512M", f"--loose-tacho.directory={self.directory}/log",
            f"--loose-tacho.arena-directory={self.arenas}",
        ]
        sysbench = [
            "sysbench", "--db-driver=mysql", f"--mysql-socket={self.socket}", "--mysql-user=root",
            "--mysql-db=tacho_bench", "--tables=4", "--table-size=10000", "--db-ps-mode=disable",
            f"--threads={options.threads}", "--time=0", options.workload,
        ]
        self.sysbench = sysbench
        # Where its scripts find each other.
        self.environment = dict(os.environ, LUA_PATH="/usr/share/sysbench/?.lua")
        try:
            self.begin()
            for sql in ("CREATE DATABASE tacho_bench", *REWRITER_RULES):
                self.ask(sql)
            subprocess.run([*sysbench, "prepare"], env=self.environment, check=True,
                           stdout=subprocess.DEVNULL)
        except BaseException:
            self.stop()
            raise

    def begin(self):
        self.process = subprocess.Popen(self.command)
        ping = ["mysqladmin", "--no-defaults", "--user=root", f"--socket={self.socket}", "ping"]
        until = time.monotonic() + DEADLINE_S
        while subprocess.run(ping, capture_output=True).returncode:
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit(f"the server does not come up, see {self.directory}/error.log")
            time.sleep(0.2)
        # One session for all: a log-in in the middle of a block would count.
        self.client = subprocess.Popen(
            ["mysql", "--no-defaults", "--user=root", f"--socket={self.socket}",
             "--skip-column-names", "--batch", "--unbuffered"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run_load(self):
        self.load = subprocess.Popen([*self.sysbench, "run"], env=self.environment,
                                     stdout=subprocess.DEVNULL)
        time.sleep(WARM_UP_S)

    def ask(self, sql):
        """The rows of the answer."""
        self.client.stdin.write(f"{sql}; SELECT 'end of the answer';\n")
        self.client.stdin.flush()
        rows = []
        while (row := self.client.stdout.readline().rstrip("\n")) != "end of the answer":
            if self.client.poll() is not None:
                sys.exit(f"{sql}: failed, see above")
            rows.append(row)
        return rows

    def go_to(self, state):
        if state == self.state:
            return
        if self.state == REWRITER:
            # Its sessions hold it until they end.
            self.ask("UNINSTALL PLUGIN rewriter")
            self.end()
            self.begin()
            self.run_load()
        elif self.state in STATES:
            self.ask(NO_RULES)
            if state not in STATES:
                self.ask(f"UNINSTALL COMPONENT '{COMPONENT}'")
        if state == REWRITER:
            self.ask("INSTALL PLUGIN rewriter SONAME 'rewriter.so'")
        elif state in STATES:
            if self.state not in STATES:
                self.ask(f"INSTALL COMPONENT '{COMPONENT}'")
            for sql in STATES[state]:
                self.ask(sql)
        self.state = state

    @contextlib.contextmanager
    def paused(self):
        """Without its load: another server that starts beside 256 busy sessions takes minutes."""
        self.load.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.load.send_signal(signal.SIGCONT)

    def counters(self):
        """Queries so far, and processor time of all threads, s."""
        if self.load.poll() is not None:
            sys.exit("sysbench has ended, see above")
        queries = int(self.ask("SHOW GLOBAL STATUS LIKE 'Questions'")[0].split("\t")[1])
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return queries, (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        for process in (self.load, self.client, self.process):
            if process is not None:
                process.terminate()
                process.wait()
        self.client = self.load = self.process = None

    def stop(self):
        self.end()
        shutil.rmtree(self.arenas)


def compare(servers, state, options):
    """Ratio and difference (µs) of the processor times per query, and that without, µs."""
    logs, differences, without = [], [], []
    for subject, other in random.sample([servers, servers[::-1]], 2):
        with other.paused():
            subject.go_to(state)
        with subject.paused():
            other.go_to("none")
        time.sleep(options.guard)
        before = [server.counters() for server in (subject, other)]
        time.sleep(options.block)
        after = [server.counters() for server in (subject, other)]
        mine, others = [
            (late[1] - early[1]) / (late[0] - early[0]) * 1e6 for early, late in zip(before, after)
        ]
        logs.append(math.log(mine / others))
        differences.append(mine - others)
        without.append(others)
    mean = statistics.mean
    return math.exp(mean(logs)), mean(differences), mean(without)


def interval(values):
    medians = sorted(
        statistics.median(random.choices(values, k=len(values))) for _ in range(4000))
    return medians[100], medians[3899]


def show(found):
    print("state        none, µs  ratio         95 %   more, µs           95 %")
    for state, values in found.items():
        ratios, differences, without = zip(*values)
        low, high = interval(ratios)
        least, most = interval(differences)
        print(f"{state:12} {statistics.median(without):8.1f}"
              f"  {statistics.median(ratios):.3f}  {low:.3f}–{high:.3f}"
              f"     {statistics.median(differences):+6.2f}  {least:+6.2f}–{most:+6.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", nargs="+", choices=["none", *STATES, REWRITER],
                        default=["none", "logging-off", "traces-off", "changes", "on"])
    parser.add_argument("--workload", default="oltp_read_write", help="script of sysbench")
    parser.add_argument("--threads", type=int, default=32, help="connections of each server")
    parser.add_argument("--rounds", type=int, default=12, help="comparisons of each state")
    parser.add_argument("--block", type=float, default=3, help="what is measured at a time, s")
    parser.add_argument("--guard", type=float, default=0.7, help="not measured after a switch, s")
    parser.add_argument("--server-folder", type=Path, default=CACHE / "mysql-9.7",
                        help="its programs are in FOLDER/usr")
    parser.add_argument("--component", type=Path,
                        default=ROOT / "build/mysql-9.7/component_tacho.so")
    options = parser.parse_args()
    if not options.component.exists():
        sys.exit(f"{options.component} is not there: make build SERVER=mysql-9.7")
    if options.rounds < 2:
        parser.error("an interval needs two rounds")

    (ROOT / "build/bench").mkdir(parents=True, exist_ok=True)
    # The servers end with it, and the results so far are reported.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    work = Path(tempfile.mkdtemp(prefix="side-by-side-", dir=ROOT / "build/bench"))
    servers = []
    found = {state: [] for state in options.state}
    try:
        for name in ("a", "b"):
            servers.append(Server(work, name, options))
        for server in servers:
            server.run_load()
        for number in range(options.rounds):
            for state in random.sample(options.state, len(options.state)):
                found[state].append(compare(servers, state, options))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    finally:
        for server in servers:
            server.stop()
        show({state: values for state, values in found.items() if len(values) > 1})
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
