#!/usr/bin/env python3
"""Compares a log, as server_audit's lines, with what server_audit's own tests expect of server_audit.

usage: mtr-server-audit.py CSV RESULT...

scripts/mtr.sh runs the tests of MariaDB's suite `plugins` unchanged on a server that has both
plugins. CSV is what `tacho convert` makes of the log of that server, RESULT the results that come
with the tests: each line that server_audit has must be among ours, as often, or differ in one of the
ways that docs/specs/formats.md documents. Ours has more: the tests try server_audit's own filter. The
order of lines is the business of tests/mariadb/server_audit.rs.
"""

import collections
import re
import sys

# Lines of server_audit that ours does not have, and why.
DOCUMENTED = {
    "the database of USE is the one before": r",QUERY,sa_db,'use sa_db',0$",
    "no database after it was dropped":
        r",QUERY,sa_db,'(set |SHOW |show |CREATE TABLE test\.t1|insert into test\.t1|drop table test\.t1"
        r"|uninstall |select length)",
    "statements are whole": r",QUERY,sa_db,'(set global serv|select \(1\), \(2\)|select \\'A\\', )',0$",
    "all of IDENTIFIED WITH ... AS may be a secret": r"'CREATE USER plug IDENTIFIED WITH ",
    "the host of a proxied account is not known": r",PROXY_CONNECT,,`plug_dest`@`%`,0$",
    "control characters are escaped": r"'--\x1fA comment",
}

# The same, if it need not happen: another thread inserts, during the statement or after it.
SOMETIMES = {
    "the thread of INSERT DELAYED has no user": r",user1,localhost,WRITE,sa_db,t1,$",
}


def alike(line):
    """What is comparable of a line: not time, host and numbers."""
    line = re.sub(r"^[^,]*,[^,]*,([^,]*,[^,]*),\w*,\w*,", r"\1,", line)
    return re.sub(r",([1-9][0-9]*|ID)$", ",ERROR", line).replace("<secret>", "*****")


def main():
    csv, *results = sys.argv[1:]
    with open(csv, encoding="utf-8") as lines:
        ours = collections.Counter(alike(line.rstrip("\n")) for line in lines)
    theirs = collections.Counter()
    for path in results:
        with open(path, encoding="utf-8") as lines:
            theirs.update(alike(line.rstrip("\n")) for line in lines
                          if re.match(r"TIME(STAMP)?,HOSTNAME,", line))
    if not theirs:
        sys.exit("mtr-server-audit.py: the results have no lines of a log")
    documented = DOCUMENTED | SOMETIMES
    unused = set(DOCUMENTED)
    wrong = []
    for line, count in (theirs - ours).items():
        reasons = {why for why, regex in documented.items() if re.search(regex, "," + line)}
        unused -= reasons
        if not reasons:
            wrong.append(f"{count} missing: {line}")
    wrong += [f"no longer a difference: {why}" for why in sorted(unused)]
    print("\n".join(wrong + [f"{sum(theirs.values())} lines of server_audit, {len(wrong)} of them wrong"]))
    sys.exit(1 if wrong else 0)


main()
