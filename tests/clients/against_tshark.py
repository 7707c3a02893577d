#!/usr/bin/env python3
"""Compare the commands in packet files as `tacho capture --read` and tshark's dissector show them.

    against_tshark.py [--tacho PROGRAM] [--port PORT] FILE...

Both are asked for the commands of each connection, in their order, and for their texts. Answers of
a client in its login, which tshark takes for commands, are counted. All other differences are
printed, and make the exit code 1.
"""

import argparse
import base64
import collections
import itertools
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from datetime import datetime

# Names in records by the numbers of commands; docs/specs/capture.md lists them.
NAMES = {
    0x01: "Quit", 0x02: "Init DB", 0x03: "Query", 0x04: "Field List", 0x07: "Refresh",
    0x08: "Shutdown", 0x09: "Statistics", 0x0A: "Processlist", 0x0C: "Kill", 0x0D: "Debug",
    0x0E: "Ping", 0x11: "Change user", 0x12: "Binlog Dump", 0x15: "Register Slave",
    0x16: "Prepare", 0x17: "Execute", 0x18: "Long Data", 0x19: "Close stmt", 0x1A: "Reset stmt",
    0x1B: "Set option", 0x1C: "Fetch", 0x1E: "Binlog Dump GTID", 0x1F: "Reset connection",
    0xFA: "Bulk_execute",
}
# Commands whose text both show.
WITH_TEXT = {"Query", "Prepare", "Init DB"}
# Of longer texts only the beginning is compared.
TEXT_BYTES_MAX = 100_000
# Python's names of the server's character sets; the others are its own.
CHARSETS = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "latin1": "cp1252",
            "binary": "latin-1"}

# `place` is the number of the frame, or of the record.
Command = collections.namedtuple("Command", "name text place seconds", defaults=[0.0])


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def field(proto, name):
    """The bytes of a field of a packet, or None."""
    for found in proto.iter("field"):
        if found.get("name") == name:
            return bytes.fromhex(found.get("value", ""))
    return None


def by_tshark(path, ports):
    """The commands of each client's port."""
    options = [option for port in ports for option in ("-d", f"tcp.port=={port},mysql")]
    command = ["tshark", "-n", "-r", path, *options, "-Y", "mysql.command", "-T", "pdml"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    sessions = collections.defaultdict(list)
    for _, packet in ElementTree.iterparse(process.stdout):
        if packet.tag != "packet":
            continue
        protos = packet.findall("proto")
        port = next(int(field(it, "tcp.srcport").hex(), 16) for it in protos
                    if it.get("name") == "tcp")
        frame = next(it for it in protos if it.get("name") == "frame")
        number, seconds = shown(frame, "frame.number"), float(shown(frame, "frame.time_epoch"))
        for proto in protos:
            code = field(proto, "mysql.command") if proto.get("name") == "mysql" else None
            if code:
                text = field(proto, "mysql.query")
                text = field(proto, "mysql.schema") if text is None else text
                name = NAMES.get(code[0], f"command {code[0]}")
                sessions[port].append(Command(name, text, number, seconds))
        packet.clear()
    said = process.stderr.read().decode(errors="replace")
    if process.wait() != 0:
        sys.exit(f"tshark: {said}")
    return sessions


def shown(proto, name):
    return next(it.get("show") for it in proto.iter("field") if it.get("name") == name)


def original(record):
    """The bytes of a statement, or None: they are not in the record, or not as they were sent."""
    if "sql" not in record or "sql_redacted" in record:
        return None
    if "sql_b64" in record:
        return base64.b64decode(record["sql_b64"])
    charset = record.get("sql_charset", "utf8mb4")
    return record["sql"].encode(CHARSETS.get(charset, charset), errors="replace")


def by_tacho(tacho, path, ports):
    """The commands of each client's port, what is declared lost, and when it had logged in."""
    servers = [option for port in ports for option in ("--server", f"0.0.0.0:{port}")]
    sessions, lost = collections.defaultdict(list), collections.defaultdict(list)
    logins = {}
    records = map(json.loads, output_of(tacho, "capture", "--read", path, *servers).splitlines())
    for record in records:
        port = record.get("port")
        if record["event"] == "lost" and port:
            lost[port].append(record["cause"])
        elif record["event"] in ("connect", "connect_failed"):
            logins[port] = datetime.fromisoformat(record["ts"]).timestamp()
        elif record["event"] == "change_user":
            sessions[port].append(Command("Change user", None, record["seq"]))
        elif record["event"] == "statement" and "running_seq" not in record:
            sessions[port].append(Command(record["command"], original(record), record["seq"]))
    return sessions, lost, logins


def trimmed(text):
    """As the server executes it, and records have it."""
    return text[:TEXT_BYTES_MAX].strip(b" \t\n\r\v\f\0").rstrip(b"; \t\n\r\v\f")


def is_same(one, other):
    if one.name != other.name:
        return False
    if one.name not in WITH_TEXT or one.text is None or other.text is None:
        return True
    return trimmed(one.text)[:TEXT_BYTES_MAX // 2] == trimmed(other.text)[:TEXT_BYTES_MAX // 2]


def differences(path, tacho, ports):
    sessions = by_tshark(path, ports)
    records, lost, logins = by_tacho(tacho, path, ports)
    counts = collections.Counter()
    for port in sorted(sessions.keys() | records.keys()):
        # To the microsecond, which records have.
        theirs = [it for it in sessions[port] if it.seconds > logins.get(port, 0) - 1e-6]
        counts["login"] += len(sessions[port]) - len(theirs)
        pairs = itertools.zip_longest(records[port], theirs)
        for at, (ours, other) in enumerate(pairs, 1):
            if not (ours and other and is_same(ours, other)):
                counts["different"] += 1
                print(f"{path}: port {port}, command {at}, lost: {lost[port]}")
                print(f"  tacho  {ours and ours._replace(text=str(ours.text)[:200])}")
                print(f"  tshark {other and other._replace(text=str(other.text)[:200])}")
                break
            counts["same"] += 1
            counts["texts"] += ours.name in WITH_TEXT and None not in (ours.text, other.text)
    print(f"{path}: {counts['same']} commands and {counts['texts']} texts are the same, "
          f"{counts['login']} answers in logins are left out, "
          f"{counts['different']} connections differ")
    return counts["different"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tacho", default="build/bin/tacho")
    parser.add_argument("--port", type=int, action="append", default=[])
    parser.add_argument("file", nargs="+")
    arguments = parser.parse_args()
    counts = [differences(path, arguments.tacho, arguments.port) for path in arguments.file]
    sys.exit(any(counts))


if __name__ == "__main__":
    main()
