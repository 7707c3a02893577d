import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ago,
  HOUR,
  parseInstant,
  parseTyped,
  rangeLabel,
  resolve,
  SECOND,
  writeInstant,
} from "../../src/lib/time.ts";

test("instants keep their microseconds, whatever the offset", () => {
  const at = parseInstant("2026-11-21T01:02:03.123456+01:00");
  assert.equal(at, Date.UTC(2026, 10, 21, 0, 2, 3) * 1000 + 123_456);
  assert.equal(writeInstant(at ?? 0), "2026-11-21T00:02:03.123456Z");
  assert.equal(parseInstant("2026-11-21T00:02:03Z"), Date.UTC(2026, 10, 21, 0, 2, 3) * 1000);
  assert.equal(parseInstant("2026-11-21T00:02:03.5Z"), Date.UTC(2026, 10, 21, 0, 2, 3, 500) * 1000);
  assert.equal(writeInstant(-1), "1969-12-31T23:59:59.999999Z");
});

test("what is no instant is refused", () => {
  for (const text of ["", "now", "2026-11-21", "2026-13-01T00:00:00Z", "2026-11-21T00:00:00"]) {
    assert.equal(parseInstant(text), null, text);
  }
});

test("relative times count from now", () => {
  assert.equal(resolve("-15m", HOUR), HOUR - 900 * SECOND);
  assert.equal(resolve("now", 7), 7);
  assert.equal(resolve("-15x"), null);
  assert.equal(resolve("-m"), null);
});

test("typed times are exact or relative", () => {
  assert.equal(parseTyped(" -6h "), "-6h");
  assert.equal(parseTyped("2026-11-21T01:00:00+01:00"), "2026-11-21T00:00:00.000000Z");
  assert.match(parseTyped("2026-11-21 02:30") ?? "", /:30:00\.000000Z$/);
  assert.match(parseTyped("2026-11-21 02:30:15.25") ?? "", /:15\.250000Z$/);
  assert.equal(parseTyped("yesterday"), null);
});

test("ranges and distances are said in words", () => {
  assert.equal(rangeLabel("-1h", "now"), "Last hour");
  assert.equal(rangeLabel("-15m", "now"), "Last 15 minutes");
  assert.equal(rangeLabel("nonsense", "now"), "Invalid range");
  assert.equal(ago(0, 90 * SECOND), "2 min ago");
  assert.equal(ago(10 * SECOND, 0), "in 10 s");
});
