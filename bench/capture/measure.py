#!/usr/bin/env python3
"""What does recording from packets cost, and how fast are packet files decoded?

    bench/capture/measure.py [--steps files,live,threads,replay] [--rounds N] [--other-decoder PATH]
                             [--packetbeat PATH]

Needs mariadbd, sysbench and tcpdump in PATH, root for packet sockets, and `make build`; tshark is
measured beside if there is one. See README.md.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
DEADLINE_S = 120
TABLE_ROWS = 100_000
THREADS = 8
# A user id without rights.
UNPRIVILEGED = 65534


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Server:
    """A private MariaDB that listens on 127.0.0.1."""

    def __init__(self, directory):
        self.directory, self.port = directory, free_port()
        data, self.socket = directory / "data", directory / "socket"
        run("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}",
            "--auth-root-authentication-method=normal", "--skip-test-db",
            stdout=subprocess.DEVNULL)  # fmt: skip
        self.process = subprocess.Popen(
            ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}",
             f"--socket={self.socket}", "--bind-address=127.0.0.1", f"--port={self.port}",
             f"--pid-file={directory}/pid", f"--log-error={directory}/error.log",
             "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=512M",
             "--max-connections=200", "--skip-log-bin"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        deadline = time.monotonic() + DEADLINE_S
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the server did not start:\n" + (directory / "error.log").read_text())
            time.sleep(0.1)
        self.sql("CREATE DATABASE bench; CREATE USER bench@'127.0.0.1' IDENTIFIED BY 'bench';"
                 " GRANT ALL ON bench.* TO bench@'127.0.0.1'")  # fmt: skip
        self.sysbench("oltp_read_write", "prepare")

    def sql(self, text):
        run("mariadb", "--no-defaults", "--user=root", f"--socket={self.socket}", input=text)

    def sysbench(self, script, command, *options):
        output = run(
            "sysbench", script, "--mysql-host=127.0.0.1", f"--mysql-port={self.port}",
            "--mysql-user=bench", "--mysql-password=bench", "--mysql-db=bench", "--mysql-ssl=off",
            f"--table-size={TABLE_ROWS}", f"--threads={THREADS}", *options, command,
            stdout=subprocess.PIPE)  # fmt: skip
        return output.stdout

    def processor_s(self):
        return processor_s(self.process.pid)

    def stop(self):
        self.process.terminate()
        self.process.wait(DEADLINE_S)


def processor_s(pid):
    """User and system time of a running process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_s(command):
    """Processor time that a command needs, and its stdout."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = run(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, output


class Tcpdump:
    """tcpdump of a port of lo into a file.

    Not with --immediate-mode: then each packet takes 256 KiB of its buffer, and wakes it up.
    """

    def __init__(self, port, path):
        self.process = subprocess.Popen(
            ["tcpdump", "--interface=lo", "--buffer-size=262144", "-Z", "root",
             "-w", str(path), "tcp", "port", str(port)],
            stderr=subprocess.PIPE, text=True)  # fmt: skip
        # "listening on lo, …"
        for line in self.process.stderr:
            if "listening on" in line:
                return
        sys.exit("tcpdump did not start")

    def stop(self):
        time.sleep(2)  # What is still in the kernel's buffer: it looks every second.
        spent_s = processor_s(self.process.pid)
        self.process.send_signal(signal.SIGINT)
        text = self.process.stderr.read()
        self.process.wait(DEADLINE_S)
        return spent_s, text


def record(server, path, load):
    """A packet file of a load in which nothing is missing."""
    tcpdump = Tcpdump(server.port, path)
    load()
    _, text = tcpdump.stop()
    if "\n0 packets dropped by kernel" not in text:
        sys.exit(f"tcpdump has lost packets, the file is of no use:\n{text}")


class Packetbeat:
    """packetbeat, with its events in a file: of an interface, or of a packet file."""

    def __init__(self, program, port, work):
        self.directory = Path(tempfile.mkdtemp(dir=work))
        config = self.directory / "packetbeat.yml"
        config.write_text(json.dumps({
            "packetbeat": {
                "interfaces": {"device": "lo", "type": "af_packet", "buffer_size_mb": 256},
                "flows": {"enabled": False},
                "protocols": [{"type": "mysql", "ports": [port]}],
                # Behind a packet file it waits for that twice.
                "shutdown_timeout": "15s",
            },
            "queue.mem.events": 65536,
            "output.file": {"path": str(self.directory), "filename": "events",
                            "rotate_every_kb": 4 << 20, "number_of_files": 16},
            "logging": {"level": "info", "to_stderr": True, "to_files": False},
        }))  # fmt: skip
        config.chmod(0o600)
        self.command = [str(program), "-c", str(config), "--path.home", str(self.directory)]

    def statements(self):
        """Statements among its events."""
        return sum('"query":' in line and '"type":"mysql"' in line
                   for path in self.directory.glob("events*") for line in path.open())  # fmt: skip

    def read(self, path):
        """Reads a packet file: processor time, statements."""
        spent_s, _ = children_s([*self.command, "-I", str(path), "-t"])
        statements = self.statements()
        shutil.rmtree(self.directory)
        return spent_s, statements

    def start(self):
        # Not a pipe: it warns of each packet that it does not understand.
        messages = self.directory / "stderr"
        self.process = subprocess.Popen(self.command, stderr=messages.open("w"))
        deadline = time.monotonic() + DEADLINE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            if "packetbeat start running" in messages.read_text():
                # It opens its socket after that, and says nothing then.
                time.sleep(2)
                return self
            time.sleep(0.1)
        sys.exit("packetbeat did not start")

    def stop(self):
        # Its events wait for its output.
        spent_s, before_s = processor_s(self.process.pid), -1
        while spent_s - before_s > 0.05:
            time.sleep(1)
            spent_s, before_s = processor_s(self.process.pid), spent_s
        self.process.send_signal(signal.SIGINT)
        self.process.wait(DEADLINE_S)
        statements = self.statements()
        shutil.rmtree(self.directory)
        self.statements = statements
        return spent_s, ""


def files(server, work, rounds, events, other_decoder, packetbeat):
    """Offline: decoder alone, all of `tacho capture --read`, and others on the same files."""
    loads = {
        "point selects, text": lambda: server.sysbench(
            "oltp_point_select", "run", "--db-ps-mode=disable", f"--events={events}", "--time=0"),
        "point selects, prepared": lambda: server.sysbench(
            "oltp_point_select", "run", "--db-ps-mode=auto", f"--events={events}", "--time=0"),
        "bulk results": lambda: run(
            "mariadb", "--no-defaults", "--user=bench", "--password=bench", "--host=127.0.0.1",
            f"--port={server.port}", "--quick", "bench", stdout=subprocess.DEVNULL,
            input="SELECT * FROM sbtest1;\n" * max(events // 15_000, 1)),
    }  # fmt: skip
    for name, load in loads.items():
        path = work / "packets.pcap"
        record(server, path, load)
        peer = packetbeat and Packetbeat(packetbeat, server.port, work)
        yield from read(name, path, rounds, other_decoder, peer)
        path.unlink()


def read(name, path, rounds, other_decoder, packetbeat):
    server = []  # The port is not 3306: servers are recognised by their greeting.
    programs = {
        "decoder": [TARGET / "examples/decode", path],
        "decoder again": [TARGET / "examples/decode", path],
        "tacho capture --read": [TARGET / "tacho", "capture", "--read", path, *server],
        "tcpdump -r -w -": ["tcpdump", "-r", path, "-w", "/dev/null"],
    }
    if other_decoder:
        programs["other decoder"] = [other_decoder, path]
    spent_s = {program: [] for program in programs}
    for _ in range(rounds):
        for program, command in programs.items():
            seconds, output = children_s(command)
            spent_s[program].append(seconds)
            if program == "decoder":
                counts = json.loads(output)
            if program == "tacho capture --read":
                lines = sum('"event":"statement"' in line and '"lost"' not in line
                            for line in output.splitlines())  # fmt: skip
    if shutil.which("tshark"):
        # Once: it takes longer than all others.
        command = ["tshark", "-r", path, "-Y", "mysql.query", "-T", "fields", "-e", "mysql.query"]
        spent_s["tshark"] = [children_s(command)[0]]
    found = {}
    if packetbeat:
        # Once, too.
        seconds, found["packetbeat"] = packetbeat.read(path)
        spent_s["packetbeat"] = [seconds]
    size = path.stat().st_size
    for program, each in spent_s.items():
        seconds = statistics.median(each)
        yield {
            "step": "files", "file": name, "program": program, "file_bytes": size,
            "statements": counts["statements"], "lost": counts["lost"], "lines": lines,
            "found": found.get(program),
            "processor_s": round(seconds, 3), "mb_per_s": round(size / seconds / 1e6),
            "statements_per_s": round(counts["statements"] / seconds),
            "ratio_to_decoder": round(statistics.median(
                own / one for own, one in zip(each, spent_s["decoder"])), 3),
        }  # fmt: skip


class Capture:
    """`tacho capture` of the server's port."""

    def __init__(self, server, work, *options, interface="lo", prefix=()):
        self.log = Path(tempfile.mkdtemp(dir=work))
        # As root it would refuse to decode: it switches to the owner of the directory.
        os.chown(self.log, UNPRIVILEGED, UNPRIVILEGED)
        self.process = subprocess.Popen(
            [*prefix, TARGET / "tacho", "capture", "--interface", interface,
             "--server", f"127.0.0.1:{server.port}", "--log", self.log / "log",
             "--signing-key-file", self.log / "key", *options],
            stderr=open(self.log / "stderr", "w"))  # fmt: skip
        deadline = time.monotonic() + DEADLINE_S
        while not list(self.log.glob("log/*.jsonl")):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("capture did not start:\n" + (self.log / "stderr").read_text())
            time.sleep(0.1)

    def stop(self):
        time.sleep(1)  # What is still in the ring and in the arena.
        spent_s = processor_s(self.process.pid)
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        lost = [json.loads(line) for path in self.log.glob("log/*.jsonl")
                for line in path.open() if '"event":"lost"' in line]  # fmt: skip
        packets = sum(line.get("lost_packets", 0) for line in lost)
        self.statements = sum('"event":"statement"' in line and '"command":"Query"' in line
                              for path in self.log.glob("log/*.jsonl")
                              for line in path.open())  # fmt: skip
        shutil.rmtree(self.log)
        return spent_s, f"{len(lost)} lost lines, {packets} lost packets"


def value_of(word, text):
    """The number behind a word in the report of sysbench."""
    line = next(line for line in text.splitlines() if line.strip().startswith(word))
    return int(line.split(":")[1].split()[0])


def live(server, work, rounds, seconds, packetbeat):
    """Beside a load: processor time of the capture for each statement, and what the load loses."""
    programs = {
        "none": lambda: None,
        "none again": lambda: None,
        "tacho capture": lambda: Capture(server, work),
        "tcpdump -w /dev/null": lambda: Tcpdump(server.port, "/dev/null"),
    }
    if packetbeat:
        programs["packetbeat"] = lambda: Packetbeat(packetbeat, server.port, work).start()
    return beside(server, programs, "live", "oltp_read_write", rounds, seconds)


def threads(server, work, rounds, seconds, most):
    """The same with several threads, beside the highest rate of statements: point selects."""
    programs = {"none": lambda: None, "none again": lambda: None}
    for count, again in [(1, ""), (1, " again"), *((it, "") for it in range(2, most + 1))]:
        name = f"--threads {count}{again}"
        programs[name] = lambda count=count: Capture(server, work, "--threads", str(count))
    return beside(server, programs, "threads", "oltp_point_select", rounds, seconds)


def replay(server, work, rounds, events, rates, is_first):
    """Point selects at constant rates, sent into a pair of interfaces of a network namespace."""
    recorded, path = work / "recorded.pcap", work / "packets.pcap"
    record(server, recorded, lambda: server.sysbench(
        "oltp_point_select", "run", "--db-ps-mode=disable", f"--events={events}", "--time=0"))
    # On lo, checksums are left to a network card that does not exist.
    run("tcprewrite", "--fixcsum", f"--infile={recorded}", f"--outfile={path}")
    recorded.unlink()
    counts = json.loads(children_s([TARGET / "examples/decode", path])[1])
    packets = int(run("capinfos", "-Mrc", path, stdout=subprocess.PIPE)
                  .stdout.splitlines()[-1].split()[-1])  # fmt: skip
    name = f"tacho-bench-{os.getpid()}"
    inside = ["ip", "netns", "exec", name]
    # Before all other processes: a sender that waits for them has no constant rate.
    before_others = [*inside, "chrt", "--rr", "1"]
    run("ip", "netns", "add", name)
    try:
        run(*inside, "ip", "link", "add", "v0", "mtu", "65535", "type", "veth",
            "peer", "name", "v1", "mtu", "65535")  # fmt: skip
        for interface in ("lo", "v0", "v1"):
            run(*inside, "ip", "link", "set", interface, "up")
        for rate in [rate for rate in rates for _ in range(rounds)]:
            # The prefixes become the command.
            capture = Capture(server, work, interface="v0",
                              prefix=before_others if is_first else inside)  # fmt: skip
            pps = round(rate * packets / counts["statements"])
            report = run(*before_others, "tcpreplay", "--preload-pcap", f"--pps={pps}",
                         "-i", "v1", path, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT).stdout  # fmt: skip
            rated = next(line for line in report.splitlines() if line.startswith("Rated:"))
            reached = float(rated.split()[-2]) * counts["statements"] / packets
            spent_s, note = capture.stop()
            yield {
                "step": "replay", "rate": rate, "real_time": is_first, "packets": packets,
                "statements": counts["statements"], "recorded": capture.statements,
                "statements_per_s": round(reached),
                "processor_us_per_statement": round(spent_s / counts["statements"] * 1e6, 3),
                "notes": note,
            }  # fmt: skip
    finally:
        run("ip", "netns", "del", name)


def beside(server, programs, step, script, rounds, seconds):
    """Runs a load beside each program in turns."""
    found = {name: [] for name in programs}
    for number in range(rounds):
        order = list(programs)
        if number % 2:
            order.reverse()
        for name in order:
            program = programs[name]()
            text = server.sysbench(script, "run", f"--time={seconds}", "--db-ps-mode=disable")
            queries, transactions = value_of("total:", text), value_of("transactions", text)
            spent_s, note = program.stop() if program else (0.0, "")
            share = getattr(program, "statements", 0) / queries
            found[name].append((queries, transactions / seconds, spent_s, note, share))
    first = next((name for name in programs if name not in ("none", "none again")), None)
    cost = {name: [it[2] / it[0] for it in each] for name, each in found.items()}
    for name, each in found.items():
        pairs = [it[1] / none[1] for it, none in zip(each, found["none"])]
        costs = [own / one for own, one in zip(cost[name], cost[first])]
        yield {
            "step": step, "program": name,
            "statements_per_s": round(statistics.median(it[0] for it in each) / seconds),
            "transactions_per_s": round(statistics.median(it[1] for it in each)),
            "ratio_to_none": round(statistics.median(pairs), 3),
            "processor_us_per_statement": round(statistics.median(cost[name]) * 1e6, 3),
            f"processor_ratio_to_{first}": round(statistics.median(costs), 3),
            # The client library sends a few more.
            "recorded_to_sent": round(statistics.median(it[4] for it in each), 4),
            "notes": sorted({it[3].strip().replace("\n", ", ") for it in each}),
        }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", default="files,live", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5,
                        help="rounds of each; default: %(default)s")  # fmt: skip
    parser.add_argument("--events", type=int, default=300_000,
                        help="point selects in a packet file; default: %(default)s")  # fmt: skip
    parser.add_argument("--other-decoder", type=Path, metavar="PATH",
                        help="`files`: the example `decode` of another version")  # fmt: skip
    parser.add_argument("--rates", default="100000", metavar="N,…",
                        help="statements a second of `replay`; default: %(default)s")  # fmt: skip
    parser.add_argument("--real-time", action="store_true",
                        help="`replay`: run the capture before all other work")  # fmt: skip
    parser.add_argument("--packetbeat", type=Path, metavar="PATH",
                        help="`files`, `live`: measure this packetbeat beside")  # fmt: skip
    parser.add_argument("--seconds", type=int, default=15,
                        help="length of a load of `live`; default: %(default)s")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2,
                        help="most threads of `threads`; default: %(default)s")  # fmt: skip
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("packet sockets need root")
    run("cargo", "build", "--quiet", "--release", "-p", "tacho", "-p", "tacho-capture",
        "--bins", "--examples", cwd=ROOT)  # fmt: skip
    work = Path(tempfile.mkdtemp(prefix="tacho-bench-capture-", dir="/dev/shm"))
    work.chmod(0o755)
    try:
        server = Server(work)
        try:
            for step in arguments.steps.split(","):
                results = {
                    "files": lambda: files(server, work, arguments.rounds, arguments.events,
                                           arguments.other_decoder, arguments.packetbeat),
                    "live": lambda: live(server, work, arguments.rounds, arguments.seconds,
                                         arguments.packetbeat),
                    "replay": lambda: replay(server, work, arguments.rounds, arguments.events,
                                             map(int, arguments.rates.split(",")),
                                             arguments.real_time),
                    "threads": lambda: threads(server, work, arguments.rounds, arguments.seconds,
                                               arguments.threads),
                }[step]()
                for result in results:
                    print(json.dumps(result, ensure_ascii=False), flush=True)
        finally:
            server.stop()
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
