#!/usr/bin/env python3
"""Writes crates/sql/src/digest/keywords/table.rs from what a running MariaDB calls its keywords.

    scripts/digest-keywords.py SOCKET    of a private server with performance_schema=ON

The words are those of information_schema.KEYWORDS and SQL_FUNCTIONS. Words that are one token to
the server (INT, INTEGER and INT4) have one text; which one it is, is asked of the server with a
statement that has the word, because the tables do not say it.
"""

import re
import sys
from pathlib import Path

from digest_server import Digests

TABLE = Path(__file__).resolve().parents[1] / "crates/sql/src/digest/keywords/table.rs"

# Reserved words that share a token with another one, in a statement that can be parsed. Other words
# that cannot be the name of a column have their own token.
RESERVED = {
    "CHAR": "SELECT CAST(a AS {}(2)) FROM t",
    "CHARACTER": "SELECT CAST(a AS {}(2)) FROM t",
    "DATABASE": "SHOW CREATE {} tacho_digest",
    "SCHEMA": "SHOW CREATE {} tacho_digest",
    "DATABASES": "SHOW {}",
    "SCHEMAS": "SHOW {}",
    "DEC": "SELECT CAST(a AS {}(2)) FROM t",
    "DECIMAL": "SELECT CAST(a AS {}(2)) FROM t",
    "DESCRIBE": "{} t",
    "EXPLAIN": "{} t",
    "DISTINCT": "SELECT {} a FROM t",
    "DISTINCTROW": "SELECT {} a FROM t",
    "FLOAT": "CREATE TABLE IF NOT EXISTS t (a {})",
    "FLOAT4": "CREATE TABLE IF NOT EXISTS t (a {})",
    "FLOAT8": "CREATE TABLE IF NOT EXISTS t (a {})",
    "DOUBLE": "CREATE TABLE IF NOT EXISTS t (a {})",
    "INT": "CREATE TABLE IF NOT EXISTS t (a {})",
    "INT1": "CREATE TABLE IF NOT EXISTS t (a {})",
    "INT2": "CREATE TABLE IF NOT EXISTS t (a {})",
    "INT3": "CREATE TABLE IF NOT EXISTS t (a {})",
    "INT4": "CREATE TABLE IF NOT EXISTS t (a {})",
    "INT8": "CREATE TABLE IF NOT EXISTS t (a {})",
    "INTEGER": "CREATE TABLE IF NOT EXISTS t (a {})",
    "MIDDLEINT": "CREATE TABLE IF NOT EXISTS t (a {})",
    "MEDIUMINT": "CREATE TABLE IF NOT EXISTS t (a {})",
    "TINYINT": "CREATE TABLE IF NOT EXISTS t (a {})",
    "SMALLINT": "CREATE TABLE IF NOT EXISTS t (a {})",
    "BIGINT": "CREATE TABLE IF NOT EXISTS t (a {})",
    "REGEXP": "SELECT a {} b FROM t",
    "RLIKE": "SELECT a {} b FROM t",
    "VARCHAR": "CREATE TABLE IF NOT EXISTS t (a {}(3))",
    "VARCHARACTER": "CREATE TABLE IF NOT EXISTS t (a {}(3))",
    "CURRENT_DATE": "SELECT {}",
    "CURRENT_TIME": "SELECT {}",
    "CURRENT_TIMESTAMP": "SELECT {}",
    "LOCALTIME": "SELECT {}",
    "LOCALTIMESTAMP": "SELECT {}",
}
# How functions may be called: one of these is right for each.
CALLS = (
    "SELECT {}(a) FROM t",
    "SELECT {}() FROM t",
    "SELECT {}(a, b) FROM t",
    "SELECT {}(a, INTERVAL 1 DAY) FROM t",
    "SELECT {}(a AS CHAR) FROM t",
    "SELECT {}(DAY FROM a) FROM t",
    "SELECT {}(a IN b) FROM t",
    "SELECT {}() OVER (ORDER BY a) FROM t",
    "SELECT {}(a) OVER () FROM t",
    "SELECT {}(a) OVER (ORDER BY a) FROM t",
    "SELECT {}(a, 1) OVER (ORDER BY a) FROM t",
    "SELECT {}(0.5) WITHIN GROUP (ORDER BY a) OVER () FROM t",
    "SELECT {}(a, b, c) FROM t",
    "SELECT {}(a, b, c, 1) FROM t",
    "SELECT {}('[]', '$' COLUMNS (x INT PATH '$')) FROM t",
    "SELECT 1 FROM {}('[]', '$' COLUMNS (x INT PATH '$')) AS j",
)
# Functions of the grammar that SQL_FUNCTIONS may leave out.
MORE_FUNCTIONS = ("SESSION_USER", "SYSTEM_USER", "MID", "SUBSTR", "STDDEV_POP", "VAR_POP", "STDDEV")
# Texts that would be read as something else: as words without a call, the tokens of functions.
BARE = {"CURDATE": "CURRENT_DATE", "CURTIME": "CURRENT_TIME", "NOW": "CURRENT_TIMESTAMP"}
USER = "SYSTEM_USER"

HEAD = '''//! The words of MariaDB 10.11 and their texts, by `scripts/digest-keywords.py`: not to be edited.

use super::Keyword;

/// Word, its text, its text before a parenthesis; empty: there it is a name.
#[rustfmt::skip]
pub(super) static KEYWORDS: &[Keyword] = &[
'''


def text_of(digests, pattern, word):
    """What the server writes for `word`; '' if it is a name; None if the statement is wrong."""
    found = digests.of(pattern.format(word))
    if found is None:
        return None
    if f"`{word}`" in found[1]:
        return ""
    fixed = [digests.of(pattern.format(name)) for name in ("`tacho_x`", "tacho_x")]
    template = next((f[1] for f in fixed if f), None)
    if template is not None and "`tacho_x`" in template:
        before, after = template.split("`tacho_x`", 1)
        return found[1][len(before) : len(found[1]) - len(after)].strip()
    # The pattern cannot contain a name: the difference from another word is the word.
    words = re.findall(r"[A-Z_0-9]+", re.sub("`.*?`", "", found[1]))
    if word in words:
        return word
    known = set(re.findall(r"[A-Z_0-9]+", pattern.upper()))
    left = [w for w in words if w not in known]
    return left[0] if len(left) == 1 else None


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    digests = Digests(sys.argv[1])
    run = digests.runner
    run.must("CREATE OR REPLACE TABLE t (a INT, b INT, c VARCHAR(10))")
    words = [r[0].decode() for r in run.must("SELECT WORD FROM information_schema.KEYWORDS")]
    words = sorted({w for w in words if re.fullmatch(r"[A-Z_0-9]+", w)})
    functions = [r[0].decode().upper()
                 for r in run.must("SELECT FUNCTION FROM information_schema.SQL_FUNCTIONS")]  # fmt: skip
    table = {}
    unknown = []
    for word in words:
        pattern = RESERVED.get(word, "SELECT 1 AS {}")
        text = text_of(digests, pattern, word)
        if word in RESERVED and not text:
            sys.exit(f"{word}: no text")
        if text == "":
            # In this list, and a word only before a parenthesis.
            functions.append(word)
            continue
        if text is None:
            unknown.append(word)
        table[word] = [text or word] * 2
    for word in sorted({*functions, *MORE_FUNCTIONS}):
        if word in table:
            continue
        texts = [text_of(digests, pattern, word) for pattern in CALLS]
        text = next((t for t in texts if t is not None), None)
        if text is None:
            unknown.append(f"{word}()")
        elif text:
            table[word] = ["", text]
    for word, texts in table.items():
        bare, call = texts
        # A text must be read as the same word again.
        bare = "USER" if bare == USER else bare
        call = "USER" if call == USER else call
        table[word] = [BARE.get(bare, bare), call]
    lines = [f'    Keyword::new("{w}", "{b}", "{c}"),\n' for w, (b, c) in sorted(table.items())]
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(HEAD + "".join(lines) + "];\n")
    print(f"{len(table)} words; of their own, for all we know: {' '.join(unknown)}")


if __name__ == "__main__":
    main()
