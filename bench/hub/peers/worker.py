#!/usr/bin/env python3
"""DuckDB or chDB in a process of its own: a request as a line of JSON, an answer as another.

    worker.py duckdb|chdb DIR

{"load": [log files of each server]} -> {"s": seconds}; {"sql": text} -> {"ms": time, "rows": n}.
"""

import json
import sys
import time

# The fields that the records of the bench have.
COLUMNS = {
    "v": "UTINYINT", "seq": "UBIGINT", "ts": "TIMESTAMPTZ", "event": "VARCHAR",
    "outcome": "VARCHAR", "run": "UBIGINT", "conn": "UBIGINT", "conn_seq": "UBIGINT",
    "query_id": "UBIGINT", "user": "VARCHAR", "ip": "VARCHAR",
    "db": "VARCHAR", "command": "VARCHAR", "sql_command": "VARCHAR", "errno": "UINTEGER",
    "error": "VARCHAR", "sql": "VARCHAR", "sql_charset": "VARCHAR", "digest": "VARCHAR",
    "rows_sent": "UBIGINT", "rows_examined": "UBIGINT", "rows_affected": "UBIGINT",
    "query_time_us": "UBIGINT", "lock_time_us": "UBIGINT",
}  # fmt: skip


class DuckDb:
    """The log files themselves, as a view."""

    def __init__(self, directory):
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute(f"SET temp_directory = '{directory}'")
        self.connection.execute("SET TimeZone = 'UTC'")

    def load(self, files):
        columns = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
        parts = [
            f"SELECT *, '{origin}' AS origin FROM read_json({paths!r}, columns = {{{columns}}}, "
            "format = 'newline_delimited')"
            for origin, paths in files.items()
        ]
        self.connection.execute(f"CREATE VIEW records AS {' UNION ALL '.join(parts)}")

    def ask(self, sql):
        return len(self.connection.execute(sql).fetchall())


class ChDb:
    """A table of ClickHouse's MergeTree, as one would make it for such a log."""

    TABLE = """CREATE TABLE records (
        v UInt8, seq UInt64 CODEC(Delta, ZSTD(1)), ts DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
        event LowCardinality(String), outcome LowCardinality(String), run UInt64, conn UInt64,
        conn_seq UInt64, query_id UInt64 CODEC(Delta, ZSTD(1)), user LowCardinality(String),
        ip LowCardinality(String), db LowCardinality(String),
        command LowCardinality(String), sql_command LowCardinality(String), errno UInt32,
        error String CODEC(ZSTD(1)), sql String CODEC(ZSTD(3)),
        sql_charset LowCardinality(String), digest LowCardinality(String),
        rows_sent UInt64 CODEC(ZSTD(1)), rows_examined UInt64 CODEC(ZSTD(1)),
        rows_affected UInt64 CODEC(ZSTD(1)), query_time_us UInt64 CODEC(ZSTD(1)),
        lock_time_us UInt64 CODEC(ZSTD(1)), origin LowCardinality(String),
        INDEX conn_bloom conn TYPE bloom_filter GRANULARITY 1,
        INDEX user_bloom user TYPE bloom_filter GRANULARITY 1,
        INDEX sql_tokens sql TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 1
    ) ENGINE = MergeTree PARTITION BY toDate(ts) ORDER BY (ts, origin)"""

    def __init__(self, directory):
        from chdb.session import Session

        self.session = Session(f"{directory}/data")
        self.session.query("CREATE DATABASE IF NOT EXISTS bench ENGINE = Atomic")
        self.session.query("USE bench")

    def load(self, files):
        self.session.query(self.TABLE)
        names = ", ".join(COLUMNS)
        for origin, paths in files.items():
            for path in paths:
                self.session.query(
                    f"INSERT INTO records ({names}, origin) SELECT {names}, '{origin}' "
                    f"FROM file('{path}', JSONEachRow, '{self.structure()}') "
                    "SETTINGS date_time_input_format = 'best_effort'"
                )

    @staticmethod
    def structure():
        """The columns of the file; the names of types are ClickHouse's."""
        kinds = {
            "UTINYINT": "UInt8", "UBIGINT": "UInt64", "UINTEGER": "UInt32", "VARCHAR": "String",
            "TIMESTAMPTZ": "DateTime64(6)",
        }  # fmt: skip
        return ", ".join(f"{name} {kinds[kind]}" for name, kind in COLUMNS.items())

    def ask(self, sql):
        answer = self.session.query(sql, "JSONCompactEachRow")
        return answer.data().count("\n")


def main():
    kind, directory = sys.argv[1:]
    # Libraries print: answers go elsewhere.
    answers = sys.stdout
    sys.stdout = sys.stderr
    system = {"duckdb": DuckDb, "chdb": ChDb}[kind](directory)
    for line in sys.stdin:
        request = json.loads(line)
        begin = time.perf_counter()
        if "load" in request:
            system.load(request["load"])
            answer = {}
        else:
            answer = {"rows": system.ask(request["sql"])}
        answer["ms"] = (time.perf_counter() - begin) * 1000
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
