import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogRecord } from "../../src/api/types.ts";
import { steps, totals } from "../../src/lib/timeline.ts";

let seq = 0;

function record(second: number, more: Partial<LogRecord>): LogRecord {
  seq += 1;
  const ts = `2026-11-21T00:00:${String(second).padStart(2, "0")}.000000+00:00`;
  return { v: 1, seq, ts, event: "statement", outcome: "ok", server: "db1", run: 1, ...more };
}

test("pauses and missing numbers are steps of their own", () => {
  const all = steps([
    record(0, { event: "connect", conn_seq: 1 }),
    record(1, { conn_seq: 2, sql: "SELECT 1", query_time_us: 500_000 }),
    record(9, { conn_seq: 5, sql: "SELECT 2" }),
  ]);
  assert.deepEqual(
    all.map((step) => step.kind),
    ["record", "record", "missing", "idle", "record"],
  );
  assert.deepEqual(all[2], { kind: "missing", count: 2, bracket: "none" });
  assert.deepEqual(all[3], { kind: "idle", length: 7_500_000, bracket: "none" });
  assert.equal(totals(all).missing, 2);
});

test("a transaction is bracketed from BEGIN to COMMIT", () => {
  const sql = ["/* x */ BEGIN", "UPDATE t SET a = 1", "ROLLBACK TO s", "commit", "SELECT 1"];
  const all = steps(sql.map((text, i) => record(0, { conn_seq: i + 1, sql: text })));
  assert.deepEqual(
    all.map((step) => step.bracket),
    ["begin", "inside", "inside", "end", "none"],
  );
});

test("a statement that failed begins nothing, and a logout ends everything", () => {
  const all = steps([
    record(0, { conn_seq: 1, sql: "BEGIN", outcome: "error" }),
    record(0, { conn_seq: 2, sql: "START TRANSACTION" }),
    record(0, { conn_seq: 3, event: "disconnect" }),
  ]);
  assert.deepEqual(
    all.map((step) => step.bracket),
    ["none", "begin", "end"],
  );
});

test("a long statement is one step: its end with the text of its begin", () => {
  const running = record(0, { conn_seq: 1, sql: "SELECT SLEEP(9)", outcome: "running" });
  const further = record(1, { conn_seq: 1, outcome: "running", running_seq: running.seq });
  const end = record(0, { conn_seq: 1, running_seq: running.seq, query_time_us: 9_000_000 });
  const all = steps([running, further, end]);
  assert.equal(all.length, 1);
  assert.equal(all[0]?.kind === "record" && all[0].record.sql, "SELECT SLEEP(9)");
  assert.equal(totals(all).busy, 9_000_000);
  // Without its end it is still running.
  assert.equal(steps([running]).length, 1);
});
