#!/usr/bin/env python3
"""The speed of the hub, and of others with the same records: see README.md."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

import questions as ask  # noqa: E402
import usage  # noqa: E402
from hub import BIN, Client, Hub, Measured, wait_current  # noqa: E402

BUILD = HERE.parents[1] / "build/bench-hub"
LOAD = Path(os.environ.get("TACHO_BENCH_LOAD", BUILD / "hub_load"))
SERVERS = 8
STEPS = ("ingest", "peers", "compression", "lag", "shipper", "store")


def load(*arguments, **options):
    """Runs the generator."""
    command = [str(word) for word in (LOAD, *arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options)
    return json.loads(done.stdout)


def tell(**result):
    """A result: a line of JSON, now."""
    print(json.dumps(result), flush=True)
    return result


def percentile(values, percent):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * percent / 100))]


def summary(times):
    median_ms, p95_ms = statistics.median(times), percentile(times, 95)
    return {"median_ms": round(median_ms, 1), "p95_ms": round(p95_ms, 1)}


def last_seq(log):
    """The number of the last record of a log."""
    newest = max(log.glob("audit-*.jsonl"))
    with open(newest, "rb") as lines:
        lines.seek(-4096, os.SEEK_END)
        return json.loads(lines.read().splitlines()[-1])["seq"]


def ingest(options, work):
    """Ships logs to a hub as fast as it takes them. Returns the hub."""
    logs = Path(options.source or work) / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    made = load("log", logs, options.records, options.days * 24, SERVERS, options.file_mib)
    names = [f"db{number}" for number in range(1, SERVERS + 1)]
    last = {name: last_seq(logs / name) for name in names}
    hub = Hub(work / "hub")
    begin = time.perf_counter()
    ships = Measured([hub.ship(logs / name, name, "--once", "--no-retain") for name in names])
    ship_cpu_s, ship_peak_mb = ships.wait()
    shipped = time.perf_counter() - begin
    wait_current(hub, last)
    elapsed = time.perf_counter() - begin
    hub_cpu_s = usage.cpu_s(hub.process.pid)
    usage.wait_until(hub.merged, "the merger has nothing to do", 1800)
    (total_cpu_s, peak_mb), _ = usage.family(hub.process.pid)
    records = made["records"]
    tell(
        what="ingest", system=hub.name, records=records,
        line_bytes=round(made["bytes"] / records), shipped_s=round(shipped, 1),
        current_s=round(elapsed, 1), records_per_s=round(records / elapsed),
        hub_cpu_us=round(hub_cpu_s / records * 1e6, 2),
        hub_with_merges_cpu_us=round(total_cpu_s / records * 1e6, 2),
        ship_cpu_us=round(ship_cpu_s / records * 1e6, 2),
        peak_mb=round(peak_mb), ship_peak_mb=round(ship_peak_mb),
        store_bytes=round(usage.directory_bytes(hub.data / "store") / records, 1),
        replica_bytes=round(usage.directory_bytes(hub.data / "replica") / records, 1),
    )  # fmt: skip
    shutil.rmtree(logs)
    return hub, records, made["bytes"] / made["records"]


def rounds(systems, days, count, **more):
    """Asks all systems all questions in turn, `count` times."""
    times = {}
    for number in range(count):
        for question in ask.questions(days):
            for system in systems[number % len(systems):] + systems[: number % len(systems)]:
                elapsed, rows = system.ask(question)
                times.setdefault((question, system.name), []).append((elapsed, rows))
    for (question, name), asked in times.items():
        tell(
            what="question", system=name, question=question.name, title=question.title,
            first_ms=round(asked[0][0], 1),
            **summary([elapsed for elapsed, _ in asked[1:] or asked]),
            rows=asked[-1][1], **more,
        )  # fmt: skip
    return times


def peers(options, work, hub, records):
    """The same records, from the hub's replica, in other systems; then the questions."""
    from in_process import ChDb, DuckDb
    from servers import OpenSearch, VictoriaLogs

    known = {system.name: system for system in (DuckDb, ChDb, VictoriaLogs, OpenSearch)}
    files = {
        path.parent.name: sorted(path.glob("audit-*.jsonl"))
        for path in sorted((hub.data / "replica").glob("db*/1"))
    }
    systems = [hub]
    for name in options.peers.split(","):
        system = known[name](work / name)
        begin = time.perf_counter()
        system.load(files)
        elapsed = time.perf_counter() - begin
        cpu_s, peak_mb = system.used()
        system.settle()
        tell(
            what="ingest", system=name, records=records, records_per_s=round(records / elapsed),
            cpu_us=round(cpu_s / records * 1e6, 2), peak_mb=round(peak_mb),
            store_bytes=round(system.bytes() / records, 1),
        )  # fmt: skip
        systems.append(system)
    slow = [system for system in systems if system.name == "duckdb"]
    fast = [system for system in systems if system not in slow]
    rounds(fast, options.days, options.repeats, records=records)
    rounds(slow, options.days, min(options.repeats, 3), records=records)
    for system in systems[1:]:
        _, peak_mb = system.used()
        tell(what="after", system=system.name, peak_mb=round(peak_mb),
             store_bytes=round(system.bytes() / records, 1))  # fmt: skip
        system.stop()
        shutil.rmtree(work / system.name)


class Paced:
    """A log that grows at a steady rate, and its shipper."""

    def __init__(self, hub, log, rate, seconds, name):
        shutil.rmtree(log, ignore_errors=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [LOAD, "paced", log, str(rate), str(seconds)]
        self.writer = usage.started(command, stdout=subprocess.PIPE, text=True)
        if self.writer.stdout.readline().strip() != "started":
            raise RuntimeError("the generator did not start")
        self.shipper = hub.ship(log, name, "--no-retain")

    def is_running(self):
        return self.writer.poll() is None

    def stop(self):
        made = json.loads(self.writer.stdout.readline())
        self.writer.wait()
        self.writer.stdout.close()
        self.shipper.terminate()
        self.shipper.wait()
        return made


def seen_lags(hub, is_running, name):
    """Seconds from the end of a statement until a search finds it, for evenly spread records."""
    lags, before = [], None
    path = f"/api/v1/records?from=-20s&server={name}&order=desc&limit=1"
    while is_running():
        found = hub.get(path)["records"]
        now = time.time()
        if found:
            newest = datetime.fromisoformat(found[0]["ts"]).timestamp()
            if before is not None and newest > before:
                count = max(1, round((newest - before) * 1000))
                lags += [now - before - (newest - before) * part / count for part in range(count)]
            elif before is None:
                # What was there before the first look is not measured.
                pass
            before = newest
        time.sleep(0.05)
    return lags


def compression(options, data, line_bytes):
    """All complete files of a replica: what they need on the disk, and what that costs. Then the
    questions: their records are in compressed files."""
    plain = {
        path: path.stat().st_size
        for log in sorted((data / "replica").glob("db*/1"))
        # The newest one is not complete.
        for path in sorted(log.glob("audit-*.jsonl"))[:-1]
    }
    if not plain:
        sys.exit("no log file is complete: use more records, or a smaller --file-mib")
    stored = {path: path.with_name(path.name + ".tcol") for path in plain}
    begin = time.perf_counter()
    hub = Hub(data, compresses=True)
    is_done = lambda: all(  # noqa: E731
        stored[path].exists() and not path.exists() for path in plain
    )
    usage.wait_until(is_done, "the complete files are compressed", 1800)
    elapsed = time.perf_counter() - begin
    cpu_s = usage.cpu_s(hub.process.pid)
    records = sum(plain.values()) / line_bytes
    tell(
        what="compression", files=len(plain), records=round(records),
        line_bytes=round(line_bytes), elapsed_s=round(elapsed, 1),
        hub_cpu_us=round(cpu_s / records * 1e6, 2),
        replica_bytes=round(sum(path.stat().st_size for path in stored.values()) / records, 1),
    )  # fmt: skip
    rounds([hub], options.days, options.repeats, state="compressed")
    hub.stop()


def lag(options, work):
    """How long until a record can be found, at a steady rate."""
    hub = Hub(work / "hub-lag")
    paced = Paced(hub, work / "paced/db1", options.lag_rate, options.seconds, "db1")
    begin_cpu = usage.cpu_s(hub.process.pid)
    lags = seen_lags(hub, paced.is_running, "db1")
    made = paced.stop()
    (cpu_s, peak_mb), (_, query_peak_mb) = usage.family(hub.process.pid)
    tell(
        what="lag", rate=options.lag_rate, seconds=options.seconds, samples=len(lags),
        p50_s=round(statistics.median(lags), 3), p99_s=round(percentile(lags, 99), 3),
        max_s=round(max(lags), 3), hub_core=round((cpu_s - begin_cpu) / options.seconds, 3),
        hub_peak_mb=round(peak_mb), query_peak_mb=round(query_peak_mb), writer=made,
    )  # fmt: skip
    hub.stop()
    shutil.rmtree(work / "hub-lag")
    shutil.rmtree(work / "paced")


def shipper(options, work):
    """What `tacho ship` needs at a steady rate."""
    hub = Hub(work / "hub-ship")
    paced = Paced(hub, work / "paced/db1", options.ship_rate, options.seconds, "db1")
    pid = paced.shipper.pid
    time.sleep(2)
    begin, cpu_s = time.perf_counter(), usage.cpu_s(pid)
    paced.writer.wait()
    core = (usage.cpu_s(pid) - cpu_s) / (time.perf_counter() - begin)
    peak_mb = usage.peak_mb(pid)
    made = paced.stop()
    tell(what="shipper", rate=options.ship_rate, seconds=options.seconds, core=round(core, 4),
         peak_mb=round(peak_mb, 1), writer=made)  # fmt: skip
    hub.stop()
    shutil.rmtree(work / "hub-ship")
    shutil.rmtree(work / "paced")


def store(options, work):
    """The questions over many records: at rest, and while others come in."""
    data = options.store or work / "hub-store"
    if data.exists():
        made = {"records": options.store_records, "made": "before"}
    else:
        made = load("store", data, options.store_records, options.days)
    tell(what="store", **made,
         store_bytes=round(usage.directory_bytes(data / "store") / made["records"], 1))  # fmt: skip
    count = {"records": made["records"]}
    usage.forget(data / "store")
    hub = Hub(data)
    rounds([hub], options.days, 1, state="after a start, nothing cached", **count)
    rounds([hub], options.days, options.repeats, state="at rest", **count)
    seconds = options.seconds * 8
    # A name of its own: an index that stays has the log of the run before under the other.
    name = f"paced-{int(time.time())}"
    paced = Paced(hub, work / "paced" / name, options.lag_rate, seconds, name)
    stop = threading.Event()
    lags = []
    state = f"{options.lag_rate} records/s"
    rounds([hub], options.days, options.repeats, state=state, **count)
    # Again with what the lag is measured by: 10 to 20 searches a second.
    poller = Client(hub.address, hub.auditor)
    watcher = threading.Thread(
        target=lambda: lags.extend(
            seen_lags(poller, lambda: paced.is_running() and not stop.is_set(), name)
        )
    )
    watcher.start()
    state += ", with searches for the newest record all the time"
    rounds([hub], options.days, options.repeats, state=state, **count)
    stop.set()
    watcher.join()
    if not lags:
        sys.exit("no record came in while the questions were asked: see what the shipper said")
    (_, peak_mb), (_, query_peak_mb) = usage.family(hub.process.pid)
    tell(what="lag", rate=options.lag_rate, beside="questions", samples=len(lags),
         p50_s=round(statistics.median(lags), 3), p99_s=round(percentile(lags, 99), 3),
         hub_peak_mb=round(peak_mb), query_peak_mb=round(query_peak_mb))  # fmt: skip
    paced.writer.terminate()
    paced.writer.wait()
    paced.shipper.terminate()
    paced.shipper.wait()
    hub.stop()
    if not options.store:
        shutil.rmtree(data)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", default=",".join(STEPS), help="some of the steps")
    parser.add_argument("--records", type=int, default=10_000_000, help="shipped, and in each peer")
    parser.add_argument("--file-mib", type=int, default=256, help="of the logs' files")
    parser.add_argument("--store-records", type=int, default=100_000_000, help="in the large index")
    parser.add_argument("--store", type=Path, help="where the large index stays")
    parser.add_argument("--days", type=int, default=7, help="of the records")
    parser.add_argument("--repeats", type=int, default=20, help="of each question")
    parser.add_argument("--seconds", type=int, default=60, help="of steady rates")
    parser.add_argument("--lag-rate", type=int, default=20_000, help="records/s")
    parser.add_argument("--ship-rate", type=int, default=10_000, help="records/s")
    parser.add_argument("--peers", default="duckdb,chdb,victorialogs,opensearch")
    parser.add_argument("--directory", type=Path, default=BUILD / "run", help="for all data")
    parser.add_argument("--source", type=Path, help="for the logs that are shipped")
    return parser.parse_args()


def main():
    options = parse()
    work = options.directory
    if work.exists():
        sys.exit(f"{work} exists; remove it first")
    for program in (BIN / "tacho-hub", BIN / "tacho", LOAD):
        if not program.exists():
            sys.exit(f"{program} is missing; run make bench-hub, or bench/hub/setup.sh")
    work.mkdir(parents=True)
    try:
        measure(options, work)
    finally:
        usage.end_all()
        shutil.rmtree(work)


def measure(options, work):
    steps = options.steps.split(",")
    if not {"ingest", "peers", "compression"}.isdisjoint(steps):
        hub, records, line_bytes = ingest(options, work)
        if "peers" in steps:
            peers(options, work, hub, records)
        elif "compression" in steps:
            # Otherwise the peers' step has asked.
            rounds([hub], options.days, options.repeats, state="not compressed")
        hub.stop()
        if "compression" in steps:
            compression(options, work / "hub", line_bytes)
        shutil.rmtree(work / "hub")
    for step in (lag, shipper, store):
        if step.__name__ in steps:
            step(options, work)


if __name__ == "__main__":
    main()
