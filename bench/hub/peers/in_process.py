"""DuckDB over the log files, and ClickHouse's engine (chDB), in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import questions as ask
import usage

WORKER = Path(__file__).with_name("worker.py")


class Library:
    """A worker process."""

    kind = ""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.process = usage.started(
            [sys.executable, WORKER, self.kind, directory],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def request(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} ended: its messages are above")
        return json.loads(answer)

    def load(self, files):
        paths = {origin: [str(path) for path in paths] for origin, paths in files.items()}
        self.request(load=paths)

    def settle(self):
        """ClickHouse merges parts in the background; nothing waits for that."""

    def ask(self, question):
        answer = self.request(sql=ask.sql(question, "records", self.time, "origin"))
        return answer["ms"], answer["rows"]

    def used(self):
        return usage.cpu_s(self.process.pid), usage.peak_mb(self.process.pid)

    def bytes(self):
        return usage.directory_bytes(self.directory)

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class DuckDb(Library):
    kind = name = "duckdb"
    title = "DuckDB 1.5.5 over the log files"

    @staticmethod
    def time(text):
        return f"TIMESTAMPTZ '{text}'"


class ChDb(Library):
    kind = name = "chdb"
    title = "ClickHouse 26.9 (chDB 4.4.0)"

    @staticmethod
    def time(text):
        return f"parseDateTime64BestEffort('{text}', 6, 'UTC')"
