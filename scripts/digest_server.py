"""What a server with performance_schema makes of statements: their digests.

Speaks just enough of the client protocol to send the bytes of a statement as they are: the
command-line client takes comments out, and splits at semicolons.
"""

import socket
import struct

SETUP = (
    "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME LIKE '%statements%'",
    "CREATE DATABASE IF NOT EXISTS tacho_digest",
    "USE tacho_digest",
)


class Session:
    """A session of root without a password on the socket of a private server."""

    def __init__(self, path, setup=SETUP):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.buffer = self.socket.makefile("rb")
        self._packet()
        # Long password, protocol 4.1, secure connection, multi results; utf8mb4_general_ci.
        self._send(struct.pack("<IIB23x", 0x0002_8201, 1 << 24, 45) + b"root\0\0", 1)
        answer = self._packet()
        if answer[0] == 0xFE:
            self._send(b"", 3)
            answer = self._packet()
        if answer[0] != 0:
            raise ConnectionError(answer[9:].decode(errors="replace"))
        for statement in setup:
            self.must(statement)

    def _send(self, payload, number):
        self.socket.sendall(struct.pack("<I", len(payload))[:3] + bytes([number]) + payload)

    def _packet(self):
        head = self.buffer.read(4)
        if len(head) < 4:
            raise ConnectionError("the server has closed the connection")
        return self.buffer.read(int.from_bytes(head[:3], "little"))

    def query(self, statement):
        """Rows of a statement, or the number of its error."""
        sql = statement if isinstance(statement, bytes) else statement.encode()
        self._send(b"\x03" + sql, 0)
        first = self._packet()
        if first[0] == 0xFF:
            return int.from_bytes(first[1:3], "little")
        if first[0] in (0, 0xFB):
            return []
        for _ in range(first[0] + 1):
            self._packet()
        rows = []
        while True:
            packet = self._packet()
            if packet[0] == 0xFE and len(packet) < 9:
                return rows
            if packet[0] == 0xFF:
                return int.from_bytes(packet[1:3], "little")
            rows.append(_fields(packet))

    def must(self, statement):
        """As query, for what must not fail."""
        rows = self.query(statement)
        if isinstance(rows, int):
            raise RuntimeError(f"error {rows}: {statement}")
        return rows


def _fields(packet):
    fields, at = [], 0
    while at < len(packet):
        length, at = packet[at], at + 1
        if length == 0xFB:
            fields.append(None)
            continue
        if length >= 0xFC:
            width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[length]
            length, at = int.from_bytes(packet[at : at + width], "little"), at + width
        fields.append(packet[at : at + length])
        at += length
    return fields


class Digests:
    """Asks for the digests of statements: one session runs them, another one looks."""

    def __init__(self, path):
        self.runner = Session(path)
        self.looker = Session(path, ())
        thread = self.runner.must(
            "SELECT THREAD_ID FROM performance_schema.threads"
            " WHERE PROCESSLIST_ID = CONNECTION_ID()"
        )
        self.thread = thread[0][0].decode()
        self.last_event = 0
        # The statements of the reading session must not displace those of the other one from the
        # history.
        self.looker.must(
            "UPDATE performance_schema.threads SET INSTRUMENTED = 'NO'"
            " WHERE PROCESSLIST_ID = CONNECTION_ID()"
        )

    def of(self, statement):
        """(digest, text), or None where the server has none: it could not parse the statement."""
        self.runner.query(statement)
        # The server may answer before it notes the end of the statement.
        for _ in range(1000):
            rows = self.looker.must(
                "SELECT EVENT_ID, DIGEST, DIGEST_TEXT"
                " FROM performance_schema.events_statements_history"
                f" WHERE THREAD_ID = {self.thread} AND NESTING_EVENT_ID IS NULL"
                f" AND EVENT_ID > {self.last_event} ORDER BY EVENT_ID DESC LIMIT 1"
            )
            if rows:
                break
        if not rows:
            return None
        event, digest, text = rows[0]
        self.last_event = int(event)
        if digest is None:
            return None
        return digest.decode(), text.decode(errors="replace").rstrip()
