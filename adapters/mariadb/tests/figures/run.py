#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compares the figures with the server's own: the Performance Schema and the slow log.

Usage: run.py [kinds | load | slow | leak | busy | quick] ...   (all but quick, if none is given)

`quick` is `load` for two seconds. `make test` runs `kinds` and `quick`.
"""

import collections
import os
import subprocess
import sys
import time

import statements
from server import BUILD, Server, build

SENT, EXAMINED, AFFECTED, QUERY, LOCK, ERROR, NESTED = (1 << n for n in range(7))
ALL = 127

Figure = collections.namedtuple(
    "Figure", "subclass conn query_id code command sqlcom name present sent examined affected "
              "query lock errno sqlstate text")
Seen = collections.namedtuple("Seen", "event sent examined affected errno sqlstate lock text")
Slow = collections.namedtuple("Slow", "sent examined affected lock query text")

LOAD_SQL = """select thread_id, event_name, rows_sent, rows_examined, rows_affected,
    ifnull(mysql_errno, 0), ifnull(returned_sqlstate, ''), lock_time div 1000000,
    hex(ifnull(sql_text, ''))
    from performance_schema.events_statements_history_long where end_event_id is not null
    order by thread_id, end_event_id, nesting_event_level desc"""


def check(condition, *what):
    """Fails the test if the condition is false."""
    if not condition:
        raise SystemExit("FAILED: " + " ".join(map(str, what)))


def unhex(text):
    return bytes.fromhex(text).decode(errors="replace")


def read_figures(server):
    """The STATUS events by connection."""
    by_connection = collections.defaultdict(list)
    for line in server.figures.read_text().splitlines():
        if not line.startswith("#"):
            f = line.split("\t")
            figure = Figure(*map(int, f[:4]), f[4], int(f[5]), f[6], *map(int, f[7:14]), f[14],
                            unhex(f[15]))
            if figure.subclass == 3:
                by_connection[figure.conn].append(figure)
    return by_connection


def read_performance_schema(server):
    """Its finished statements by thread, in the order in which they ended."""
    by_thread = collections.defaultdict(list)
    for row in server.query(LOAD_SQL):
        by_thread[row[0]].append(Seen(row[1], *map(int, row[2:6]), row[6], int(row[7]),
                                      unhex(row[8]) if len(row) > 8 else ""))
    return by_thread


def check_calibration(server):
    """Everything was found, and the commands have names."""
    lines = [line for line in server.figures.read_text().splitlines() if line.startswith("#")]
    check(f"# calibrated\t1\t{ALL}\t" in lines, lines[:4])
    check(any(line.startswith("# commands\t1\t") for line in lines), lines[:4])
    check("# command\t0\tselect" in lines, "select is not 0")


def compare_error(figure, seen):
    has_error = bool(figure.present & ERROR)
    check(has_error == (seen.errno != 0), "error", figure, seen)
    if has_error:
        check((figure.errno, figure.sqlstate) == (seen.errno, seen.sqlstate), figure, seen)
        check(figure.errno == figure.code, "not the event's error code", figure)


def compare_top(figure, seen, tag):
    """A statement of the client."""
    check(not figure.present & NESTED, "nested", figure)
    compare_error(figure, seen)
    if seen.event.startswith("statement/sql/") and tag != "execute":
        check(seen.event == "statement/sql/" + (figure.name or "error"), "name", figure, seen)
    check(figure.present & QUERY and figure.present & LOCK, "times", figure)
    check(figure.query >= figure.lock, "times", figure)
    is_routine = figure.name in ("call_procedure", "compound_sql")
    if figure.present & SENT:
        check(tag != "unsure", "rows_sent", figure, seen)
        check(figure.sent <= 1 if is_routine else figure.sent == seen.sent, "rows_sent", figure)
    else:
        check(tag == "unsure" or is_routine, "no rows_sent", figure, seen)
    check(figure.present & EXAMINED, "no rows_examined", figure)
    is_blind = is_routine or (tag == "cursor" and figure.command == "Execute")
    check(is_blind or figure.examined == seen.examined, "rows_examined", figure, seen)
    is_ok = seen.sqlstate == "00000"
    check(bool(figure.present & AFFECTED) == is_ok, "rows_affected", figure, seen)
    check(figure.affected == seen.affected, "rows_affected", figure, seen)
    check(figure.lock >= seen.lock, "lock_time", figure, seen)
    return is_blind or figure.lock == seen.lock


def compare_nested(figure, seen):
    """A statement of a routine. The Performance Schema has lost its rows_affected by then."""
    check(figure.present & NESTED, "not nested", figure, seen)
    compare_error(figure, seen)
    check(not figure.present & (QUERY | LOCK), "times", figure)
    check(not figure.present & SENT or figure.sent == seen.sent, "rows_sent", figure, seen)
    check(figure.examined == seen.examined, "rows_examined", figure, seen)


def split_lines(events, count):
    """One list for each line of the script: the events between the markers."""
    groups, group = [], []
    for event in events:
        if event.text == statements.MARKER.format(len(groups)):
            groups.append(group)
            group = []
        else:
            group.append(event)
    check(len(groups) == count, len(groups), "lines of", count)
    return groups


def is_nested(event):
    return event.event == "statement/sp/stmt" if isinstance(event, Seen) else event.present & NESTED


def split_nested(events):
    return ([e for e in events if not is_nested(e)], [e for e in events if is_nested(e)])


def compare_line(line, figures, seen):
    """Compares the events of one line of the script; returns how many."""
    _, text, tag = line
    # The other instructions of a routine (set, jump, return) raise no audit event.
    seen = [s for s in seen
            if not s.event.startswith("statement/sp/") or s.event == "statement/sp/stmt"]
    (figures, nested), (seen, seen_nested) = split_nested(figures), split_nested(seen)
    if tag == "immediate":
        check(figures[0].text in text and figures[0].text != text, figures)
        figures = figures[1:]
    elif tag == "dynamic":
        nested = [f for n, f in enumerate(nested)
                  if n + 1 == len(nested) or nested[n + 1].name != "execute_sql"]
    elif tag == "bulk":
        bulk = [f for f in figures if f.command == "Bulk_execute"]
        check(bulk and all(f.present & ~ERROR == 0 for f in bulk), "bulk", bulk)
        figures = [f for f in figures if f.command != "Bulk_execute"]
        seen = [s for s in seen if s.event != "statement/com/Bulk_execute"]
    elif tag == "no-status":
        seen = [s for s in seen if s.errno != 1243]
    check(len(figures) == len(seen), text, len(figures), "top of", len(seen), figures, seen)
    check(len(nested) == len(seen_nested), text, len(nested), "of", len(seen_nested))
    for figure, other in zip(figures, seen):
        check(compare_top(figure, other, tag), "lock_time", figure, other)
    for figure, other in zip(nested, seen_nested):
        compare_nested(figure, other)
    return len(figures) + len(nested)


def run_script(server):
    """Runs all kinds on one connection: its id, its thread in the Performance Schema, the lines."""
    lines = statements.SETUP + statements.KINDS
    (server.directory / "load.txt").write_text("1\n2\n3\n4\n")
    client, conn = server.client()
    thread = server.query("select ifnull(max(thread_id), 0) from performance_schema.threads "
                          f"where processlist_id = {conn}")[0][0]
    for n, (letter, text, _) in enumerate(lines):
        text = text.replace("$DIRECTORY", str(server.directory))
        client.stdin.write(f"{letter} {text}\nQ {statements.MARKER.format(n)}\n")
    client.stdin.close()
    check(client.wait() == 0, "the client failed")
    server.wait_until_alone()
    return conn, thread, lines


def without_times(figures):
    return [f._replace(conn=0, query_id=0, query=0, lock=0, text=f.text[:20]) for f in figures]


def run_kinds():
    """Each kind of statement, with each way to load the plugin and to use threads."""
    first = None
    for install, schema, options in (
            (True, True, ["--query-cache-type=1", "--query-cache-size=1M"]),
            (False, True, ["--query-cache-type=1", "--query-cache-size=1M"]),
            (False, False, ["--query-cache-type=1", "--query-cache-size=1M"]),
            (True, True, ["--thread-handling=pool-of-threads"]),
            (True, True, ["--query-cache-type=0", "--log-bin", "--binlog-format=ROW"])):
        if not install:
            options = [*options, "--plugin-load-add=figures_test"]
        with Server(*options, performance_schema=schema) as server:
            if install:
                server.install()
            check_calibration(server)
            conn, thread, lines = run_script(server)
            figures = split_lines(read_figures(server)[conn][:-1], len(lines))
            count = sum(map(len, figures))
            if schema:
                seen = split_lines(read_performance_schema(server)[thread][:-1], len(lines))
                count = sum(map(compare_line, lines, figures, seen))
                first = first or figures
            else:
                for mine, other in zip(figures, first):
                    check(without_times(mine) == without_times(other), mine, other)
            print(f"ok kinds: {count} events, {'INSTALL' if install else 'at start'}, "
                  f"performance_schema {'ON' if schema else 'OFF'}, {' '.join(options)}")


def prepare_sysbench(server, mode, threads):
    """Creates the tables; returns the command."""
    sysbench = ["sysbench", "oltp_read_write", f"--mysql-socket={server.socket}",
                "--mysql-user=root", "--mysql-db=s", "--tables=4", "--table-size=5000",
                f"--db-ps-mode={mode}", f"--threads={threads}"]
    server.query("create database s")
    subprocess.run([*sysbench, "prepare"], check=True, stdout=subprocess.DEVNULL)
    return sysbench


def run_load(seconds=6):
    """Sixteen connections at full speed: every statement of each."""
    for options, mode in (([], "disable"), ([], "auto"),
                          (["--thread-handling=pool-of-threads"], "disable")):
        with Server("--plugin-load-add=figures_test", "--max-connections=50",
                    *options) as server:
            sysbench = prepare_sysbench(server, mode, 16)
            load = subprocess.Popen([*sysbench, f"--time={seconds}", "run"],
                                    stdout=subprocess.DEVNULL)
            threads = {}
            while load.poll() is None:
                threads.update(server.query(
                    "select processlist_id, thread_id from performance_schema.threads "
                    "where processlist_db = 's'"))
                time.sleep(0.5)
            check(load.returncode == 0, "sysbench failed")
            server.wait_until_alone()
            figures, seen = read_figures(server), read_performance_schema(server)
            count, waits = 0, 0
            for conn, thread in threads.items():
                mine, other = figures[int(conn)], seen[thread]
                check(len(mine) == len(other), conn, len(mine), "events of", len(other))
                for figure, event in zip(mine, other):
                    check(not event.text or figure.text == event.text, figure, event)
                    waits += not compare_top(figure, event, "")
                count += len(mine)
            check(len(threads) >= 16 and count > 1000, len(threads), count)
            print(f"ok load: {count} statements of {len(threads)} connections equal, ps-mode "
                  f"{mode} {' '.join(options)}; lock_time of {waits} has row lock waits too")


def microseconds(text):
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1000000 + int(fraction or 0)


def read_slow_log(server, conn):
    return [Slow(*map(int, row[:3]), *map(microseconds, row[3:5]), row[5])
            for row in server.query("select rows_sent, rows_examined, rows_affected, lock_time, "
                                    "query_time, sql_text from mysql.slow_log "
                                    f"where thread_id = {conn}")]


def compare_slow(figure, slow):
    check(figure.text == slow.text, "text", figure, slow)
    check(figure.lock == slow.lock, "lock_time", figure, slow)
    # The slow log's end is read from the same clock, shortly before the event's.
    check(figure.query >= slow.query >= slow.lock, "query_time", figure, slow)
    check(figure.examined == slow.examined, "rows_examined", figure, slow)
    check(not figure.present & SENT or figure.sent == slow.sent, "rows_sent", figure, slow)
    check(not figure.present & AFFECTED or figure.affected == slow.affected, figure, slow)


def run_slow():
    """Lock time and the totals of CALL, which the Performance Schema does not have."""
    with Server("--plugin-load-add=figures_test", performance_schema=False,
                log_slow=True) as server:
        conn, _, lines = run_script(server)
        figures = split_lines(read_figures(server)[conn][:-1], len(lines))
        logged = split_lines(read_slow_log(server, conn), len(lines))
        count = 0
        for line, mine, slow in zip(lines, figures, logged):
            mine = [f for f in split_nested(mine)[0] if f.command in ("Query", "Execute")]
            if line[0] in "QP" and line[2] != "immediate":
                slow = [s for s in slow if s.text in [f.text for f in mine]]
                check(len(mine) == len(slow), line, mine, slow)
                count += len([compare_slow(*pair) for pair in zip(mine, slow)])
        holder, _ = server.client()
        waiter, waiting = server.client()
        holder.stdin.write("Q begin; update t.t1 set b = 1 where a = 1; select 1\n")
        holder.stdin.flush()
        # InnoDB refreshes these tables only if they were not read for 0.1 s.
        while not server.query("select 1 from information_schema.innodb_trx"):
            time.sleep(0.3)
        waiter.stdin.write("Q update t.t1 set b = 2 where a = 1\n")
        waiter.stdin.flush()
        while not server.query("select 1 from information_schema.innodb_lock_waits"):
            time.sleep(0.3)
        holder.stdin.close()
        waiter.stdin.close()
        check(holder.wait() == 0 and waiter.wait() == 0, "the clients failed")
        server.wait_until_alone()
        mine, slow = read_figures(server)[waiting][:-1], read_slow_log(server, waiting)
        check(len(mine) == len(slow) == 1, mine, slow)
        compare_slow(mine[0], slow[0])
        print(f"ok slow: {count + 1} statements equal the slow log, the last waited "
              "for a row lock")


def run_leak():
    """Many calibrations leave no more memory, connections and descriptors behind than one."""
    states = []
    for repeat in (1, 2000):
        with Server(performance_schema=False,
                    environment={"TACHO_FIGURES_CALIBRATIONS": str(repeat)}) as server:
            server.install()
            check_calibration(server)
            status = server.query("show global status where variable_name in ('Memory_used', "
                                  "'Connections', 'Threads_connected', 'Threads_created')")
            files = os.listdir(f"/proc/{server.process.pid}/fd")
            states.append((status, len(files)))
    check(states[0] == states[1], *states)
    print(f"ok leak: {states[0]}")


def run_busy():
    """Calibration while other threads use the heap, and sessions that begin before it."""
    with Server(performance_schema=False,
                environment={"TACHO_FIGURES_CALIBRATIONS": "200"}) as server:
        sysbench = prepare_sysbench(server, "disable", 8)
        load = subprocess.Popen([*sysbench, "--time=600", "run"],
                                stdout=subprocess.DEVNULL)
        server.install()
        check_calibration(server)
        check(load.poll() is None, "the load ended too early")
        load.terminate()
        load.wait()
        print("ok busy: 200 calibrations under load")


def main(names):
    """Runs the requested tests."""
    build()
    runs = {"kinds": run_kinds, "load": run_load, "slow": run_slow, "leak": run_leak,
            "busy": run_busy,
            "quick": lambda: run_load(2)}
    for name in names or ["kinds", "load", "slow", "leak", "busy"]:
        runs[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
