"""A hub as a process, its shippers, and requests to it."""

import http.client
import json
import os
import subprocess
import time
from pathlib import Path

import questions as ask
import usage

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("TACHO_BENCH_BIN", ROOT / "build/bin"))
HUB, TACHO = BIN / "tacho-hub", BIN / "tacho"


class Client:
    """Asks a hub, over one connection that stays open."""

    def __init__(self, address, token):
        self.address, self.auditor = address, token
        self.connection = None

    def get(self, path):
        """The JSON of an answer."""
        headers = {"Authorization": f"Bearer {self.auditor}"}
        for is_again in (False, True):
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.address, timeout=120)
            try:
                self.connection.request("GET", path, headers=headers)
                answer = self.connection.getresponse()
                break
            except (http.client.RemoteDisconnected, ConnectionError):
                # The hub closes connections that are idle for 30 s.
                self.connection = None
                if is_again:
                    raise
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:300]}")
        return json.loads(body)


class Hub(Client):
    """`tacho-hub serve` on a directory."""

    name = "tacho-hub"
    title = "Tachograph hub"

    def __init__(self, data, compresses=False):
        self.data = Path(data)
        self.data.mkdir(parents=True, exist_ok=True)
        command = [HUB, "serve", "--data", self.data, "--listen", "127.0.0.1:0",
                   "--reserve-mib", "512"]  # fmt: skip
        if not compresses:
            # Other systems load the files of the replica.
            command.append("--no-compression")
        self.process = usage.started(command, stdout=subprocess.PIPE, text=True)
        address = self.process.stdout.readline().strip().split("://")[1]
        super().__init__(address, self.token("auditor"))

    def token(self, role, *more):
        command = [HUB, "token", "create", "--data", self.data, "--role", role, *more]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def ask(self, question):
        """Milliseconds and rows of a question."""
        path = ask.hub_path(question)
        begin = time.perf_counter()
        answer = self.get(path)
        elapsed = (time.perf_counter() - begin) * 1000
        return elapsed, len(answer.get("records", answer.get("rows", [])))

    def ship(self, log, name, *more):
        """Starts `tacho ship`."""
        token = self.data.with_suffix(f".{name}.token")
        token.write_text(self.token("agent", "--server", name))
        command = [TACHO, "ship", log, "--hub", f"http://{self.address}", "--token-file", token,
                   "--name", name, *more]  # fmt: skip
        return usage.started(command, stderr=subprocess.DEVNULL)

    def servers(self):
        """The states of all servers but the hub itself."""
        return [row for row in self.get("/api/v1/servers") if row["server"] != "tacho-hub"]

    def merged(self):
        """Whether the index has nothing to merge for a while."""
        files = lambda: sorted((self.data / "store/segments").iterdir())  # noqa: E731
        before = files()
        time.sleep(3)
        return files() == before

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class Measured:
    """Runs `tacho ship` processes to their end, and has their usage."""

    def __init__(self, processes):
        self.processes = processes

    def wait(self):
        """Returns processor time and the highest memory of one of them."""
        cpu_s, peak = 0.0, 0.0
        for process in self.processes:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                raise RuntimeError(f"{process.args}: {process.returncode}")
            cpu_s += used.ru_utime + used.ru_stime
            peak = max(peak, used.ru_maxrss * 1024 / 1e6)
        return cpu_s, peak


def is_current(hub, last):
    """Whether everything has landed, is verified and can be searched. `last`: number of each."""
    rows = {row["server"]: row for row in hub.servers()}
    names = ("landed_seq", "verified_to_seq", "indexed_seq")
    return all(
        name in rows and all(rows[name].get(field) == seq for field in names)
        for name, seq in last.items()
    )


def wait_current(hub, last, seconds=1800):
    usage.wait_until(lambda: is_current(hub, last), f"the hub has {last}", seconds, step=0.02)
