#!/usr/bin/env python3
"""Compares our digests with those of a running MariaDB, statement by statement.

    scripts/digest-differences.py SOCKET FILE...             what differs, by class
    scripts/digest-differences.py SOCKET FILE... --write     write crates/sql/tests/corpus.json

SOCKET is that of a private server with performance_schema=ON and large max_digest_length. Files
have one statement a line, `\\n` in it for a newline; of files named *.test (those of the server's
own test suite) the statements are taken out. Statements run in a database of their own: some
will fail, and only those that the server can parse have a digest.

Two statements must have the same digest here if, and only if, they have the same one there.
Intended classes of differences are in docs/specs/digest.md.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from digest_server import Digests, Session

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "crates/sql/tests/corpus.json"
# Statements that would stop the run, or the server.
UNWANTED = re.compile(
    r"\b(shutdown|sleep|kill|benchmark|get_lock|performance_schema|setup_|debug|password"
    r"|read_only|super|identified|autocommit|instrumented|general_log|slow_query|sql_mode"
    r"|character_set|set\s+names|wait_timeout|max_statement|lock\s+tables|flush|install|plugin"
    r"|reset|change\s+master|slave|replica|global|drop\s+database|use\s|connection|backup"
    r"|statement_timeout|start\s+transaction\s+with|xa\s|delimiter|handler|binlog)",
    re.IGNORECASE,
)


def of_test_file(text):
    """Statements of a file for mysqltest: what is no command of its own, up to the delimiter."""
    statement = []
    for line in text.splitlines():
        if not statement and (not line.strip() or re.match(r"\s*(#|--|[{}])", line)):
            continue
        if not statement and re.match(
            r"\s*(let|echo|eval|source|connect|disconnect|error|if|while|inc|dec|exec|perl|die"
            r"|skip|sync|save|send|reap|query|enable|disable|replace_|vertical|horizontal|remove"
            r"|write_file|append|cat_file|copy_file|require|result|sorted|shell|delimiter|rmdir"
            r"|mkdir|list_files|move_file|chmod|file_exists|change_user|dirty|real_sleep|output"
            r"|character_set|lowercase|ping|reset_connection|start_timer|end_timer|EOF|optimizer)",
            line,
        ) and not re.match(r"\s*replace\s", line, re.IGNORECASE):
            continue
        statement.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(statement).rstrip().rstrip(";")
            statement = []


def read(path):
    text = Path(path).read_text(encoding="utf-8", errors="ignore")
    if path.endswith(".test"):
        wanted = (s for s in of_test_file(text) if "$" not in s and len(s) < 8000)
    else:
        lines = (line for line in text.splitlines() if line and not line.startswith("-- "))
        wanted = (line.replace("\\n", "\n") for line in lines)
    return [s for s in wanted if "\0" not in s]


def classes(path):
    """The class that stands above each statement of a file."""
    found, name = {}, ""
    for line in Path(path).read_text(encoding="utf-8", errors="ignore").splitlines():
        if line.startswith("-- class:"):
            name = line.split(":")[1].strip()
        found[line.replace("\\n", "\n")] = name
    return found


def ours(statements):
    program = ["cargo", "run", "--quiet", "-p", "tacho-sql", "--example", "digests"]
    data = b"".join(s.encode() + b"\0" for s in statements)
    out = subprocess.run(program, input=data, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout
    parts = [part.decode(errors="replace").split(" ", 1) for part in out.split(b"\0")[:-1]]
    return [(digest, text) for digest, text in parts]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("socket")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--write", action="store_true", help=f"write {CORPUS.relative_to(ROOT)}")
    parser.add_argument("--limit", type=int, default=1 << 30, help="statements, at most")
    arguments = parser.parse_args()
    statements = []
    for path in arguments.files:
        found = read(path)
        if path.endswith(".test"):
            found = [s for s in found if not UNWANTED.search(s)]
        statements += found
    statements = list(dict.fromkeys(statements))[: arguments.limit]
    digests = Digests(arguments.socket)
    digests.runner.must("SET max_statement_time = 2, lock_wait_timeout = 1")
    theirs = []
    for statement in statements:
        try:
            theirs.append(digests.of(statement))
        except ConnectionError:
            print(f"the server has gone away: {statement!r}", file=sys.stderr)
            digests = Digests(arguments.socket)
            theirs.append(None)
    both = [(s, t, o) for s, t, o in zip(statements, theirs, ours(statements)) if t is not None]
    print(f"{len(statements)} statements, {len(both)} with a digest, "
          f"{len({t[0] for _, t, _ in both})} digests there, {len({o[0] for _, _, o in both})} here")  # fmt: skip
    same_text = sum(t[1] == o[1] for _, t, o in both)
    print(f"{same_text} texts are the same")
    for name, a, b in (("split here", 0, 1), ("joined here", 1, 0)):
        groups = defaultdict(dict)
        for statement, their, our in both:
            pair = (their[0], our[0])
            groups[pair[a]].setdefault(pair[b], (statement, their[1], our[1]))
        different = [g for g in groups.values() if len(g) > 1]
        print(f"== {name}: {len(different)}")
        for group in different[:400]:
            for statement, their, our in list(group.values())[:2]:
                print(f"   {statement[:200]!r}\n      there {their[:200]}\n      here  {our[:200]}")
            print("   --")
    if arguments.write:
        known = {}
        for path in arguments.files:
            known |= classes(path)
        rows = [{"sql": s, "digest": t[0], "text": t[1], "class": known.get(s, "")}
                for s, t, _ in both]  # fmt: skip
        text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        CORPUS.parent.mkdir(exist_ok=True)
        CORPUS.write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
