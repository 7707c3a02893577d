"""The questions that all systems are asked. The records are those of `hub_load`."""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

BEGIN = datetime(2026, 10, 19, tzinfo=timezone.utc)
# The first of the rarest 8 applications, which have half of all errors.
USER = "app33"
SERVER = "db2"
# A pooled connection of the application app7.
CONN = 331
# An address that hardly any statement has: all of the hour must be searched.
LITERAL = "user4711042@example.net"
PAGE = 100


@dataclass(frozen=True)
class Question:
    """A question: its name, and the range of its records."""

    name: str
    title: str
    begin: datetime
    end: datetime

    def utc(self, which):
        """An end of the range as the systems read it."""
        return getattr(self, which).strftime("%Y-%m-%dT%H:%M:%SZ")


def questions(days):
    """The questions over the last day, all days, and the hour of the batch."""
    end = BEGIN + timedelta(days=days)
    day, batch = end - timedelta(days=1), end - timedelta(hours=22)
    hour = timedelta(hours=1)
    return [
        Question("page", f"the newest {PAGE} records", day, end),
        Question("top", "top 20 digests of a day", day, end),
        Question("errors", f"errors of one user in {days} days, the newest {PAGE}", BEGIN, end),
        Question("conn", f"one connection in {days} days, the first {PAGE} records", BEGIN, end),
        Question("literal", "a literal in the busiest hour", batch, batch + hour),
    ]


def hub_path(question):
    """The request to the hub."""
    span = f"from={question.utc('begin')}&to={question.utc('end')}"
    if question.name == "top":
        return f"/api/v1/top?{span}&by=digest&limit=20"
    path = f"/api/v1/records?{span}&limit={PAGE}&order="
    return path + {
        "page": "desc",
        "errors": f"desc&q=user%3A{USER}+errno%3A%3E0",
        "conn": f"asc&server={SERVER}&q=conn%3A{CONN}",
        "literal": f"desc&q=%22{LITERAL}%22",
    }[question.name]


def sql(question, table, time, origin):
    """The question in SQL. `time` makes a time of a text, `origin` is the column of the server."""
    span = f"ts >= {time(question.utc('begin'))} AND ts < {time(question.utc('end'))}"
    if question.name == "top":
        return (
            f"SELECT digest, count(*) AS n, sum(query_time_us) AS t FROM {table} WHERE {span} "
            "GROUP BY digest ORDER BY t DESC LIMIT 20"
        )
    condition, order = {
        "page": ("", "DESC"),
        "errors": (f"AND \"user\" = '{USER}' AND errno > 0", "DESC"),
        "conn": (f"AND {origin} = '{SERVER}' AND conn = {CONN}", "ASC"),
        "literal": (f"AND sql LIKE '%{LITERAL}%'", "DESC"),
    }[question.name]
    return f"SELECT * FROM {table} WHERE {span} {condition} ORDER BY ts {order} LIMIT {PAGE}"
