#!/usr/bin/env python3
"""Instructions that auditing adds to a point select, by callgrind.

A private MariaDB runs under callgrind once for each variant. One connection sends a short
and a long batch of the same point select by the text protocol; the difference between the
two, divided by the difference in queries, is the cost of a query: start-up, connecting and
filling of caches cancel out.

Prints a table, and with --json one line per variant for other programs.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SYSTEM_PLUGINS = "/usr/lib/mysql/plugin"
DEADLINE_S = 300
# The last one.
CPU = str((os.cpu_count() or 1) - 1)
QUERY = "SELECT c FROM bench.sbtest1 WHERE id=4711;\n"
WARM_UP, SHORT, LONG = 300, 1000, 3000
# The server's calls for each event; adapters/mariadb/events.cc.
PLUGIN_FUNCTION = "tacho::notify(THD*, unsigned int, void const*)"

# Options of mariadbd for each variant.
VARIANTS = {
    "none": [],
    "nothing": ["--plugin-load-add=nothing.so"],
    "tacho": ["--plugin-load-add=tacho.so"],
    "tacho-paced": ["--plugin-load-add=tacho.so", "--tacho-signing-key-file=", "--tacho-digest=OFF",
                    "--tacho-flush-interval-ms=5000"],
    "tacho-paced-sealed": ["--plugin-load-add=tacho.so", "--tacho-flush-interval-ms=5000"],
    "tacho-plain": ["--plugin-load-add=tacho.so", "--tacho-signing-key-file=", "--tacho-digest=OFF"],
    "tacho-skip": [
        "--plugin-load-add=tacho.so",
        '--tacho-filter={"rules": [{"user": "root", "action": "skip"}]}',
    ],
    "tacho-off": ["--plugin-load-add=tacho.so", "--tacho-logging=OFF"],
    "server_audit": [
        "--plugin-load-add=server_audit.so",
        "--server-audit-logging=ON",
        "--server-audit-output-type=file",
    ],
}
DEFAULT_VARIANTS = ["none", "nothing", "tacho", "tacho-plain", "tacho-paced", "server_audit"]

# (figure, variant) -> most instructions that may be added.
TARGETS = {
    ("query", "tacho"): 2800,
    ("process", "tacho-plain"): 6000,
    ("process", "tacho-paced"): 6000,
}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def wait_for(is_true):
    """callgrind writes when it likes to."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        if time.monotonic() > deadline:
            sys.exit("callgrind does not dump")
        time.sleep(0.1)


def build_nothing(directory):
    flags = run("mariadb_config", "--include", stdout=subprocess.PIPE).stdout.split()
    server = [f"{flag}/server" for flag in flags if flag.startswith("-I")]
    source, library = ROOT / "crates/sandbox/nothing.c", directory / "nothing.so"
    run("gcc", "-shared", "-fPIC", "-O2", "-Wno-cpp", *flags, *server, source, "-o", library)


class Server:
    """A MariaDB of our own under callgrind."""

    def __init__(self, directory, plugins, options, callgrind=("--separate-threads=yes",)):
        self.directory = directory
        self.socket = directory / "socket"
        self.dumps = 0
        command = [
            "taskset", "--cpu-list", CPU, "valgrind", "--tool=callgrind", *callgrind,
            f"--callgrind-out-file={directory}/callgrind.%p",
            # The server's own handlers of signals would be in the way.
            "mariadbd", "--no-defaults", "--user=root", "--skip-networking",
            f"--datadir={directory}/data", f"--tmpdir={directory}",
            f"--socket={self.socket}", f"--plugin-dir={plugins}",
            f"--pid-file={directory}/pid", f"--log-error={directory}/error.log",
            "--innodb-buffer-pool-size=64M", "--innodb-buffer-pool-size-max=256M",
            "--innodb-use-native-aio=0", "--innodb-log-file-size=16M",
            "--performance-schema=OFF", "--table-open-cache=400", *options,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=open(directory / "valgrind.log", "w")
        )
        deadline = time.monotonic() + DEADLINE_S
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the server did not start:\n" + (directory / "error.log").read_text())
            time.sleep(0.2)

    def query(self, text):
        # On the processor of the server, and without the right to interrupt it: so the next query
        # never arrives before the server has gone to sleep. Otherwise the path through the network
        # code would change by about 300 instructions, at random.
        run("taskset", "--cpu-list", CPU, "chrt", "--batch", "0", "nice", "-n", "19",
            "mariadb", "--no-defaults", "--batch", "--skip-column-names", "--user=root",
            f"--socket={self.socket}", input=text, stdout=subprocess.DEVNULL)  # fmt: skip

    def control(self, *command):
        run("callgrind_control", *command, self.process.pid, stdout=subprocess.DEVNULL)

    def dump(self):
        """Instructions of each thread since the last dump, and the text that names its work."""
        # Until the writer thread has written the rest of the batch.
        time.sleep(8)
        self.control("--dump")
        self.dumps += 1
        pattern = f"{self.directory}/callgrind.{self.process.pid}.{self.dumps}-*"
        deadline = time.monotonic() + DEADLINE_S
        while not (paths := glob.glob(pattern)):
            if time.monotonic() > deadline:
                sys.exit("callgrind does not dump")
            time.sleep(0.2)
        # The control program returns when the dump has begun.
        time.sleep(2)
        threads = []
        for path in glob.glob(pattern):
            text = Path(path).read_text()
            total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
            threads.append((int(total[1]) if total else 0, text))
        return threads

    def stop(self):
        self.process.terminate()
        self.process.wait(DEADLINE_S)


def figures(threads):
    """Instructions of the query threads, of the recorder's thread and of the process."""
    query = sum(count for count, text in threads if "handle_one_connection" in text)
    writer = sum(count for count, text in threads if "tacho_recorder" in text)
    return {"query": query, "writer": writer, "process": sum(count for count, _ in threads)}


def measure(variant, template, plugins, work):
    directory = work / variant
    directory.mkdir()
    shutil.copytree(template, directory / "data")
    server = Server(directory, plugins, VARIANTS[variant])
    batches = []
    for count in (WARM_UP, SHORT, LONG):
        server.query(QUERY * count)
        batches.append(figures(server.dump()))
    server.stop()
    _, short, long = batches
    return {name: (long[name] - short[name]) / (LONG - SHORT) for name in long}


def measure_plugin(variant, template, plugins, work):
    """Instructions inside the plugin's calls for one query: the same in each run.

    Not in it: the server's own for calling, and the writer thread's.
    """
    directory = work / "plugin-only"
    directory.mkdir()
    shutil.copytree(template, directory / "data")
    server = Server(directory, plugins, VARIANTS[variant],
                    ("--instr-atstart=no", f"--toggle-collect={PLUGIN_FUNCTION}"))  # fmt: skip
    server.query(QUERY * WARM_UP)
    server.control("--instr=on")
    counts = []
    # A first one, in which callgrind sees all paths.
    for queries in (SHORT // 5, SHORT // 5, LONG // 5):
        server.query(QUERY * queries)
        server.control("--dump")
        # Complete when it ends in the sum.
        path = Path(f"{directory}/callgrind.{server.process.pid}.{len(counts) + 1}")
        wait_for(lambda: path.exists() and re.search(r"^totals: \d+\n", path.read_text(), re.M))
        counts.append(int(re.search(r"^totals: (\d+)\n", path.read_text(), re.M)[1]))
    server.stop()
    _, short, long = counts
    if long == 0:
        sys.exit(f"the server never came to {PLUGIN_FUNCTION}: has it another name now?")
    kept = ROOT / f"build/instructions/point_select_{variant}.callgrind"
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, kept)
    return (long - short) / (LONG // 5 - SHORT // 5)


def fill_template(work):
    """A data directory with one table of 10,000 rows, made without callgrind."""
    data = work / "template"
    run("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}",
        "--auth-root-authentication-method=normal", "--skip-test-db",
        "--innodb-log-file-size=16M",
        stdout=subprocess.DEVNULL)  # fmt: skip
    script = (
        "CREATE DATABASE bench;\n"
        "CREATE TABLE bench.sbtest1 (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL,"
        " pad CHAR(60) NOT NULL, KEY k_1 (k)) ENGINE=InnoDB;\n"
        "SET max_recursive_iterations=20000;\n"
        "INSERT INTO bench.sbtest1 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 10000) SELECT i, i % 5000, REPEAT(MD5(i), 3), MD5(i) FROM n;\n"
    )
    log = work / "fill.log"
    run("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", "--bootstrap",
        "--innodb-log-file-size=16M", f"--log-error={log}", input=script)  # fmt: skip
    return data


def prepare(work):
    """The plugins, and a data directory to copy."""
    plugins = work / "plugins"
    plugins.mkdir()
    build_nothing(plugins)
    shutil.copy(ROOT / "build/mariadb/tacho.so", plugins)
    shutil.copy(f"{SYSTEM_PLUGINS}/server_audit.so", plugins)
    return plugins, fill_template(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON line per variant")
    parser.add_argument("--plugin-only", action="store_true",
                        help="print the instructions inside the plugin's calls of one variant")  # fmt: skip
    parser.add_argument("--keep", metavar="DIR", help="leave callgrind's files in DIR")
    parser.add_argument("variants", nargs="*", choices=[*VARIANTS, []], help="default: all but tacho-off")
    arguments = parser.parse_args()
    variants = arguments.variants or DEFAULT_VARIANTS
    if "none" not in variants:
        variants = ["none", *variants]
    os.environ["PATH"] += ":/usr/sbin"
    work = Path(tempfile.mkdtemp(prefix="tacho-point-select-"))
    try:
        plugins, template = prepare(work)
        if arguments.plugin_only:
            print(measure_plugin((arguments.variants or ["tacho"])[0], template, plugins, work))
            return
        results = {}
        for variant in variants:
            print(f"measuring {variant} …", file=sys.stderr, flush=True)
            results[variant] = measure(variant, template, plugins, work)
    finally:
        if arguments.keep:
            shutil.copytree(work, arguments.keep, ignore=shutil.ignore_patterns("data", "template", "socket"))
        shutil.rmtree(work)
    report(results, arguments.json)


def report(results, as_json):
    none = results["none"]
    if as_json:
        for variant, result in results.items():
            print(json.dumps({"variant": variant} | {k: round(v) for k, v in result.items()}))
        return
    print(f"{'':14}{'query thread':>13}{'added':>8}{'target':>8}"
          f"{'writer':>8}{'process':>10}{'added':>8}{'target':>8}")  # fmt: skip
    for variant, result in results.items():
        cells = []
        for name in ("query", "process"):
            target = TARGETS.get((name, variant), "")
            cells.append((result[name], result[name] - none[name], target))
        (query, query_added, query_target), (process, process_added, process_target) = cells
        print(f"{variant:14}{query:13,.0f}{query_added:8,.0f}{query_target!s:>8}"
              f"{result['writer']:8,.0f}{process:10,.0f}{process_added:8,.0f}"
              f"{process_target!s:>8}")  # fmt: skip


if __name__ == "__main__":
    main()
