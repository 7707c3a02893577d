"""OpenSearch and VictoriaLogs: servers with an HTTP interface."""

import http.client
import json
import socket
import threading
import time
import urllib.parse
from pathlib import Path

import questions as ask
import usage

HERE = Path(__file__).resolve().parents[1]
BUILD = HERE.parents[1] / "build/bench-hub"
# Documents of a bulk request, in bytes of lines.
BATCH_BYTES = 4 << 20
# Requests that load at the same time.
LOADERS = 2


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def batches(paths):
    """Whole lines of files, some MiB at a time."""
    for path in paths:
        with open(path, "rb") as lines:
            while batch := lines.readlines(BATCH_BYTES):
                yield batch


class Server:
    """A server process."""

    ready = "/"

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        log = open(directory / "messages", "wb")
        self.process = usage.started(self.command(), stdout=log, stderr=log)
        log.close()
        self.connection = None
        usage.wait_until(self.is_ready, f"{self.name} answers", seconds=120)

    def is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError((self.directory / "messages").read_text()[-2000:])
        try:
            return self.request("GET", self.ready) is not None
        except OSError:
            self.connection = None
            return False

    def request(self, method, path, body=None, kind="application/json", connection=None):
        headers = {"Content-Type": kind}
        if connection is None:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
            connection = self.connection
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # Connections that are idle for long are closed.
            connection.close()
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{self.name}: {path}: {answer.status} {text[:500]}")
        return text

    def load(self, files):
        """Sends the lines of all files, some requests at a time."""
        pieces = (
            (origin, batch) for origin, paths in files.items() for batch in batches(paths)
        )
        lock, failed = threading.Lock(), []

        def loader():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
            try:
                while not failed:
                    with lock:
                        piece = next(pieces, None)
                    if piece is None:
                        break
                    self.send(connection, *piece)
            except Exception as error:  # noqa: BLE001: raised below, in the thread that waits
                failed.append(error)
            connection.close()

        threads = [threading.Thread(target=loader) for _ in range(LOADERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        self.make_searchable()

    def ask(self, question):
        begin = time.perf_counter()
        rows = self.answer(question)
        return (time.perf_counter() - begin) * 1000, rows

    def used(self):
        return usage.cpu_s(self.process.pid), usage.peak_mb(self.process.pid)

    def bytes(self):
        return usage.directory_bytes(self.directory / "data")

    def settle(self):
        """Work in the background continues."""

    def stop(self):
        self.process.terminate()
        self.process.wait()


class VictoriaLogs(Server):
    name = "victorialogs"
    title = "VictoriaLogs 1.52.1"
    ready = "/health"

    def command(self):
        return [BUILD / "victorialogs/victoria-logs", f"-httpListenAddr=127.0.0.1:{self.port}",
                f"-storageDataPath={self.directory}/data", "-retentionPeriod=20y",
                "-memory.allowedPercent=25", "-loggerLevel=ERROR"]  # fmt: skip

    def send(self, connection, origin, batch):
        path = ("/insert/jsonline?_time_field=ts&_msg_field=sql&_stream_fields=origin"
                f"&extra_fields=origin%3D{origin}")  # fmt: skip
        self.request("POST", path, b"".join(batch), "application/stream+json", connection)

    def make_searchable(self):
        self.request("GET", "/internal/force_flush")

    def answer(self, question):
        # The end of a range is included.
        end = (question.end.timestamp()) - 0.000001
        span = {"start": question.utc("begin"), "end": f"{end:.6f}"}
        page = {"limit": str(ask.PAGE)}
        query = {
            "page": ("*", page),
            "top": ("* | stats by (digest) count() n, sum(query_time_us) t "
                    "| sort by (t) desc limit 20", {}),
            "errors": (f"user:={ask.USER} errno:>0", page),
            "conn": (f"{{origin=\"{ask.SERVER}\"}} conn:={ask.CONN} "
                     f"| sort by (_time) limit {ask.PAGE}", {}),
            "literal": (f'"{ask.LITERAL}"', page),
        }[question.name]  # fmt: skip
        body = urllib.parse.urlencode({"query": query[0], **query[1], **span})
        kind = "application/x-www-form-urlencoded"
        return self.request("POST", "/select/logsql/query", body, kind).count(b"\n")


class OpenSearch(Server):
    name = "opensearch"
    title = "OpenSearch 3.8.0"

    # `sql` as text is what is usual: it finds whole words, not parts of them.
    MAPPING = {
        "settings": {
            "number_of_shards": 1, "number_of_replicas": 0, "codec": "best_compression",
            "refresh_interval": "1s",
        },
        "mappings": {
            "dynamic": False,
            "properties": {
                **{name: {"type": "keyword"} for name in (
                    "event", "outcome", "user", "ip", "db", "command", "sql_command",
                    "digest", "origin")},
                **{name: {"type": "long"} for name in (
                    "seq", "run", "conn", "conn_seq", "query_id", "rows_sent", "rows_examined",
                    "rows_affected", "query_time_us", "lock_time_us")},
                "errno": {"type": "integer"},
                "ts": {"type": "date_nanos"},
                "sql": {"type": "text"},
                "error": {"type": "text"},
            },
        },
    }  # fmt: skip

    def command(self):
        java = BUILD / "java/bin/java"
        return [java, "-Xms2g", "-Xmx2g", "--add-modules", "jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED", "-cp", BUILD / "opensearch/lib/*",
                HERE / "opensearch/src/BenchNode.java", self.directory, str(self.port)]  # fmt: skip

    def __init__(self, directory):
        (directory / "config").mkdir(parents=True)
        super().__init__(directory)
        self.request("PUT", "/records", json.dumps(self.MAPPING))

    def send(self, connection, origin, batch):
        # The document has the name of its server, as with every log shipper.
        head, name = b'{"index":{}}\n{"origin":"', origin.encode() + b'",'
        body = b"".join(head + name + line[1:] for line in batch)
        kind = "application/x-ndjson"
        answer = self.request("POST", "/records/_bulk?filter_path=errors", body, kind, connection)
        if b"true" in answer:
            raise RuntimeError("OpenSearch refused documents")

    def make_searchable(self):
        self.request("POST", "/records/_refresh")

    def settle(self):
        self.request("POST", "/records/_flush")

    def answer(self, question):
        span = {"range": {"ts": {"gte": question.utc("begin"), "lt": question.utc("end")}}}
        conditions, order = {
            "page": ([], "desc"),
            "top": ([], None),
            "errors": ([{"term": {"user": ask.USER}}, {"range": {"errno": {"gt": 0}}}], "desc"),
            "conn": ([{"term": {"origin": ask.SERVER}}, {"term": {"conn": ask.CONN}}], "asc"),
            "literal": ([{"match_phrase": {"sql": ask.LITERAL}}], "desc"),
        }[question.name]
        body = {"query": {"bool": {"filter": [span, *conditions]}}, "track_total_hits": False}
        if order is None:
            total = {"t": {"sum": {"field": "query_time_us"}}}
            terms = {"field": "digest", "size": 20, "order": {"t": "desc"}}
            body |= {"size": 0, "aggs": {"top": {"terms": terms, "aggs": total}}}
        else:
            body |= {"size": ask.PAGE, "sort": [{"ts": order}]}
        path = "/records/_search?request_cache=false"
        answer = json.loads(self.request("POST", path, json.dumps(body)))
        if order is None:
            return len(answer["aggregations"]["top"]["buckets"])
        return len(answer["hits"]["hits"])
