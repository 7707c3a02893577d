import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, compact, duration, percent, rate, sentence } from "../../src/lib/format.ts";
import { oneLine, reveal, revealed } from "../../src/lib/hostile.ts";
import { tokens } from "../../src/lib/sql.ts";

test("characters that cannot be seen are named", () => {
  assert.equal(revealed("a\u202eb\u200bc\u0000"), "a⟨U+202E⟩b⟨U+200B⟩c⟨\\0⟩");
  assert.equal(revealed("tag\u{e0041}"), "tag⟨U+E0041⟩");
  assert.deepEqual(reveal("a\u001b["), [
    { text: "a", isHidden: false },
    { text: "\\e", isHidden: true },
    { text: "[", isHidden: false },
  ]);
});

test("what can be seen stays as it is", () => {
  for (const text of ["Zürich 東京 🚚", "line\n\ttab", "<script>alert(1)</script>", ""]) {
    assert.equal(revealed(text), text);
  }
});

test("a line is cut, never broken", () => {
  assert.equal(oneLine(" a\n\t b  "), "a b");
  assert.equal(oneLine("x".repeat(1000), 10), `${"x".repeat(10)}…`);
});

test("tokens of any text join to the same text", () => {
  const texts = [
    "SELECT 'it''s', \"x\\\"\", `a``b`, 0xff, 1.5e-3 -- end\nFROM t /* open",
    "'open",
    "\u202e'\n#x",
    "日本語 @v := 1",
  ];
  for (const text of texts) {
    const joined = tokens(text)
      .map((token) => token.text)
      .join("");
    assert.equal(joined, text);
  }
  const kinds = tokens("SELECT 'a' FROM x").map((token) => token.kind);
  assert.deepEqual(kinds, ["keyword", "other", "string", "other", "keyword", "other"]);
});

test("numbers have three digits and a unit", () => {
  assert.equal(duration(412), "412\u2009µs");
  assert.equal(duration(1870), "1.87\u2009ms");
  assert.equal(duration(999_600), "1.00\u2009s");
  assert.equal(duration(292e6), "4.87\u2009min");
  assert.equal(compact(9999), "9,999");
  assert.equal(compact(12_345), "12.3k");
  assert.equal(compact(999_999), "1.00M");
  assert.equal(rate(0), "0");
  assert.equal(rate(0.001), "<0.01");
  assert.equal(percent(0.0001), "<0.1%");
  assert.equal(bytes(4_928_307), "4.70\u2009MiB");
});

test("messages of the hub become sentences, names stay", () => {
  assert.equal(sentence("no recorder holds the lock"), "No recorder holds the lock");
  assert.equal(sentence("tacho_logging was changed"), "tacho_logging was changed");
  assert.equal(sentence("hub.sqlite: disk full"), "hub.sqlite: disk full");
  assert.equal(sentence(""), "");
});
