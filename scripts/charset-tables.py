#!/usr/bin/env python3
"""Generate the character-set tables of crates/record from a real MariaDB server.

The server's own conversion is the truth, so nothing here comes from a table of anybody
else. The script starts a private server (own data directory and socket, no network),
asks it to convert every byte sequence, and writes

  crates/record/src/charset/tables/*.rs              one table per character set
  crates/record/tests/fixtures/charset_digests.txt   SHA-256 over every answer of the server

The tables are what the product uses; the digests are what `tests/charsets.rs` compares the
product's decoder with, sequence by sequence. With --check nothing is written and the exit
status says whether the files in the repository are what this server gives.

Needs mariadbd, mariadb-install-db and mariadb (10.11) in PATH, and Python 3.9.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unicodedata

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
TABLES = "crates/record/src/charset/tables"
DIGESTS = "crates/record/tests/fixtures/charset_digests.txt"

ONE_BYTE_SETS = (
    "armscii8 ascii cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 dec8 geostd8 greek hebrew hp8 "
    "keybcs2 koi8r koi8u latin1 latin2 latin5 latin7 macce macroman swe7 tis620"
).split()
MULTI_BYTE_SETS = "big5 cp932 eucjpms euckr gb2312 gbk sjis ujis".split()
THREE_BYTE_SETS = ("eucjpms", "ujis")  # 0x8F starts a sequence of three bytes.
UNICODE_SETS = "ucs2 utf16 utf16le utf32 utf8mb4".split()
BUILT_IN_SETS = {"utf8mb3", "binary"}  # UTF-8 or nothing; no table, no digest.


class Server:
    """A private server, stopped and deleted at the end of the `with` block."""

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="charset-tables-")
        base = self.directory.name
        self.socket = f"{base}/server.sock"
        user = ["--user=root"] if os.geteuid() == 0 else []
        common = ["--no-defaults", f"--datadir={base}/data"]
        subprocess.run(
            ["mariadb-install-db", *common, "--auth-root-authentication-method=normal",
             "--skip-test-db", *user],
            check=True, stdout=subprocess.DEVNULL)
        path = os.environ["PATH"] + ":/usr/sbin"
        self.log = open(f"{base}/server.log", "wb")
        self.process = subprocess.Popen(
            ["mariadbd", *common, f"--socket={self.socket}", "--skip-networking",
             f"--pid-file={base}/server.pid", "--innodb-buffer-pool-size=64M",
             "--max-allowed-packet=64M", *user],
            env={**os.environ, "PATH": path}, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 60
        while not os.path.exists(self.socket):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the server did not start:\n" + open(f"{base}/server.log").read())
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        self.directory.cleanup()

    def rows(self, sql):
        result = subprocess.run(
            ["mariadb", "--no-defaults", f"--socket={self.socket}", "--skip-column-names",
             "--batch", "--default-character-set=utf8mb4", "--max-allowed-packet=64M"],
            input=sql.encode(), check=True, stdout=subprocess.PIPE)
        return [line.split("\t") for line in result.stdout.decode().splitlines()]


def load_sequences(server):
    """Every sequence of one and of two bytes, and every one of three that starts with 0x8F."""
    server.rows("""
        CREATE DATABASE s; USE s;
        CREATE TABLE bytes (b VARBINARY(3) PRIMARY KEY);
        INSERT INTO bytes SELECT UNHEX(LPAD(HEX(seq), 2, '0')) FROM seq_0_to_255;
        INSERT INTO bytes SELECT UNHEX(LPAD(HEX(seq), 4, '0')) FROM seq_0_to_65535;
        INSERT INTO bytes SELECT UNHEX(CONCAT('8F', LPAD(HEX(seq), 4, '0'))) FROM seq_0_to_65535;
    """)


def code_points(utf32_hex):
    return [int(utf32_hex[at:at + 8], 16) for at in range(0, len(utf32_hex), 8)]


def convert_all(server, charset, bytes_max):
    """[(sequence, code points, comes back)], as the server converts; `?` is its replacement.

    A sequence comes back when the server turns its text into the same bytes again. There are
    two departures from the server, both so that a line of the log can be read without doubt:
    U+FFFD counts as its replacement too (it is what tis620 and big5 have in the place of some
    unassigned codes), and the backslash of sjis is the byte 0x5C, where the server gives the
    JIS X 0208 one, 0x815F: ASCII must stand for itself.
    """
    answers = []
    for sequence, text, back in server.rows(f"""
            SELECT HEX(b), HEX(CONVERT(CONVERT(b USING {charset}) USING utf32)),
                   HEX(CONVERT(CONVERT(CONVERT(b USING {charset}) USING utf32) USING {charset}))
            FROM s.bytes WHERE LENGTH(b) <= {bytes_max} ORDER BY LENGTH(b), b"""):
        text = code_points(text)
        if charset == "sjis":
            back = back.replace("815F", "5C")
        comes_back = back == sequence and 0xFFFD not in text
        text = [0x3F if c == 0xFFFD else c for c in text]
        answers.append((bytes.fromhex(sequence), text, comes_back))
    return answers


def convert_scalars(server, charset):
    """The same for the Unicode scalar values of the BMP, and for one in 251 of the others.

    These sets are arithmetic, not tables: more values would show nothing more.
    """
    last = 0xFFFF if charset == "ucs2" else 0x10FFFF
    return [
        (bytes.fromhex(sequence), code_points(text), True)
        for sequence, text in server.rows(f"""
            SELECT HEX(CONVERT(c USING {charset})),
                   HEX(CONVERT(CONVERT(c USING {charset}) USING utf32))
            FROM (SELECT seq, CONVERT(UNHEX(LPAD(HEX(seq), 8, '0')) USING utf32) c
                  FROM s.seq_0_to_{last} WHERE seq NOT BETWEEN 0xD800 AND 0xDFFF
                  AND (seq <= 0xFFFF OR seq % 251 = 0)) x
            ORDER BY seq""")
    ]


def digest_line(charset, answers):
    """One line of the fixture; `tests/charsets.rs` computes the same from the decoder."""
    digest = hashlib.sha256()
    for sequence, text, comes_back in answers:
        points = ".".join(f"{c:X}" for c in text)
        digest.update(f"{sequence.hex()} {points} {int(comes_back)}\n".encode())
    back_count = sum(comes_back for _, _, comes_back in answers)
    return f"{charset} {len(answers)} {back_count} {digest.hexdigest()}\n"


def is_unit(answer):
    return len(answer[1]) == 1


def is_assigned(answer):
    return is_unit(answer) and (answer[1] != [0x3F] or answer[0] == b"?")


def literal(character):
    """A character inside a Rust string literal: as it is, if it survives every editor."""
    plain = (
        unicodedata.category(character)[0] in "LNPS"
        and unicodedata.bidirectional(character) not in ("R", "AL")
        and unicodedata.normalize("NFC", character) == character
        and character not in '"\\'
    )
    return character if plain else f"\\u{{{ord(character):x}}}"


def ranges(values):
    found = []
    for value in sorted(set(values)):
        if found and found[-1][1] == value - 1:
            found[-1][1] = value
        else:
            found.append([value, value])
    return ", ".join(f"(0x{first:02X}, 0x{last:02X})" for first, last in found)


def runs(pairs):
    """[(number, character)] as Rust rows: consecutive numbers share one string."""
    found = []
    for number, character in pairs:
        if found and found[-1][0] + len(found[-1][1]) == number and number & 0xFF:
            found[-1][1].append(character)
        else:
            found.append((number, [character]))
    return "".join(
        f'        (0x{number:04X}, "{"".join(map(literal, run))}"),\n' for number, run in found)


def number_list(numbers, digits):
    rows = [numbers[at:at + 12] for at in range(0, len(numbers), 12)]
    body = "".join(
        "        " + ", ".join(f"0x{n:0{digits}X}" for n in row) + ",\n" for row in rows)
    return f"&[\n{body}    ]" if rows else "&[]"


HEADER = """\
//! {what}.
//! Generated by scripts/charset-tables.py from MariaDB {version}; do not edit.

"""


def one_byte_source(version, answers_of):
    parts = [HEADER.format(what="Character sets of one byte", version=version),
             "use super::super::one_byte::OneByte;\n"]
    for charset, answers in answers_of.items():
        answers = [a for a in answers if len(a[0]) == 1]
        cells = [f"0x{a[1][0] if is_assigned(a) else 0xFFFD:04X}" for a in answers]
        rows = "".join(
            f"        {', '.join(cells[at:at + 12])},\n" for at in range(0, 256, 12))
        one_way = [a[0][0] for a in answers if is_assigned(a) and not a[2]]
        ascii_compatible = all(a[1] == [a[0][0]] for a in answers[:128])
        parts.append(
            f"\npub(in super::super) static {charset.upper()}: OneByte = OneByte {{\n"
            f"    to_unicode: [\n{rows}    ],\n"
            f"    one_way: {number_list(one_way, 2)},\n"
            f"    ascii_compatible: {str(ascii_compatible).lower()},\n}};\n")
    return "".join(parts)


def multi_byte_source(version, charset, answers):
    """Checks what the reader of the table relies on, then writes the table."""
    low = [a for a in answers if len(a[0]) == 1 and a[0][0] < 0x80]
    assert all(a[1] == [a[0][0]] and a[2] for a in low), f"{charset} is not ASCII below 0x80"
    units = [a for a in answers if is_unit(a) and a[0][0] >= 0x80]
    two = [a for a in units if len(a[0]) == 2]
    three = [a for a in units if len(a[0]) == 3]
    # 0x8E of the EUC sets has trail bytes of its own (half-width kana); a rectangle of lead
    # and trail bytes must describe what is well-formed all the same.
    pairs = {a[0] for a in two}
    leads, trails = {p[0] for p in pairs}, {p[1] for p in pairs}
    holes = sorted(
        (lead << 8 | trail) for lead in leads for trail in trails
        if bytes([lead, trail]) not in pairs)
    second, third = {a[0][1] for a in three}, {a[0][2] for a in three}
    assert len(three) == len(second) * len(third), f"{charset}: not a rectangle"

    def numbered(found):
        return [(int.from_bytes(a[0][-2:], "big"), chr(a[1][0])) for a in found if is_assigned(a)]

    def one_way(found):
        return [int.from_bytes(a[0][-2:], "big") for a in found if is_assigned(a) and not a[2]]

    one = [a for a in units if len(a[0]) == 1]
    assert all(c <= 0xFFFF for a in units for c in a[1]), f"{charset} leaves the BMP"
    return HEADER.format(what=f"Character set {charset}", version=version) + f"""\
use super::super::multi::{{Plane, CharsetTable}};

pub(in super::super) static SOURCE: CharsetTable = CharsetTable {{
    one_and_two: Plane {{
        leads: &[{ranges(leads)}],
        trails: &[{ranges(trails)}],
        ill_formed: {number_list(holes, 4)},
        runs: &[
{runs(numbered(one + two))}        ],
        one_way: {number_list(one_way(one + two), 4)},
    }},
    three: Plane {{
        leads: &[{ranges(second)}],
        trails: &[{ranges(third)}],
        ill_formed: &[],
        runs: &[
{runs(numbered(three))}        ],
        one_way: {number_list(one_way(three), 4)},
    }},
}};
"""


def generate():
    files = {}
    digests = []
    with Server() as server:
        version = server.rows("SELECT REGEXP_SUBSTR(VERSION(), '^[0-9.]+')")[0][0]
        names = {name for name, in server.rows(
            "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")}
        known = {*ONE_BYTE_SETS, *MULTI_BYTE_SETS, *UNICODE_SETS, *BUILT_IN_SETS}
        if names != known:
            sys.exit(f"sets of the server and of this script differ: {sorted(names ^ known)}")
        load_sequences(server)
        one_byte = {name: convert_all(server, name, 1) for name in ONE_BYTE_SETS}
        files[f"{TABLES}/one_byte.rs"] = one_byte_source(version, one_byte)
        digests += [digest_line(name, answers) for name, answers in one_byte.items()]
        for name in MULTI_BYTE_SETS:
            answers = convert_all(server, name, 3 if name in THREE_BYTE_SETS else 2)
            files[f"{TABLES}/{name}.rs"] = multi_byte_source(version, name, answers)
            digests.append(digest_line(name, answers))
        digests += [digest_line(name, convert_scalars(server, name)) for name in UNICODE_SETS]
    files[DIGESTS] = (
        "# set, sequences, of which come back, SHA-256 of the server's answers.\n"
        f"# Generated by scripts/charset-tables.py from MariaDB {version}; do not edit.\n"
        + "".join(digests))
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    differing = []
    for name, content in generate().items():
        path = REPOSITORY / name
        if arguments.check:
            if not path.exists() or path.read_text(encoding="utf-8") != content:
                differing.append(name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    if differing:
        sys.exit("not what the server gives: " + ", ".join(differing))


if __name__ == "__main__":
    main()
