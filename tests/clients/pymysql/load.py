#!/usr/bin/env python3
"""The load of PyMySQL: load.py HOST PORT USER PASSWORD. It has no prepared statements."""

import sys

import pymysql

LARGE = 20_000_000


def main():
    host, port, user, password = sys.argv[1:]
    conn = pymysql.connect(
        host=host,
        port=int(port),
        user=user,
        password=password,
        database="shop",
        ssl_disabled=True,
        max_allowed_packet=64 << 20,
    )
    with conn.cursor() as cursor:
        cursor.execute("SELECT 'text', 1")
        assert cursor.fetchall() == (("text", 1),)
        cursor.execute(f"CREATE TABLE `{user}` (id INT PRIMARY KEY, v LONGTEXT, f DOUBLE)")
        conn.begin()
        rows = [(1, "ä€😀", 0.5), (2, None, None)]
        cursor.executemany(f"INSERT INTO `{user}` (id, v, f) VALUES (%s, %s, %s)", rows)
        conn.commit()
        cursor.execute(f"SELECT v FROM `{user}` WHERE id = %s", (1,))
        assert cursor.fetchone() == ("ä€😀",)
        conn.begin()
        assert cursor.execute(f"DELETE FROM `{user}`") == 2
        conn.rollback()
        must_fail(cursor, f"SELECT nosuch FROM `{user}`", 1054)
        must_fail(cursor, f"INSERT INTO `{user}` (id) VALUES (1)", 1062)
        cursor.execute(f"SELECT REPEAT('x', {LARGE})")
        assert len(cursor.fetchone()[0]) == LARGE
        cursor.execute(f"INSERT INTO `{user}` (id, v) VALUES (3, %s)", ("y" * LARGE,))
    conn.commit()
    conn.ping()
    conn.select_db("shop")
    conn.close()


def must_fail(cursor, sql, errno):
    try:
        cursor.execute(sql)
    except pymysql.MySQLError as error:
        assert error.args[0] == errno, error
    else:
        raise AssertionError(sql)


if __name__ == "__main__":
    main()
