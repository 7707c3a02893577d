import type { LogRecord } from "../api/types.ts";
import { type Micros, parseInstant, SECOND } from "./time.ts";

/** The position of a record in a transaction: a bracket beside the list. */
export type Bracket = "begin" | "inside" | "end" | "none";

export type Step =
  | { kind: "record"; record: LogRecord; at: Micros; offset: Micros; bracket: Bracket }
  | { kind: "idle"; length: Micros; bracket: Bracket }
  | { kind: "missing"; count: number; bracket: Bracket };

/** A pause between two statements that is worth a line. */
const IDLE = 2 * SECOND;

const BEGIN = /^\s*(?:\/\*[\s\S]*?\*\/\s*)*(?:begin\b(?!\s+not)|start\s+transaction)/i;
const END = /^\s*(?:\/\*[\s\S]*?\*\/\s*)*(?:commit|rollback(?!\s+to))\b/i;

/** Ends of statements, in µs; other events have no length. */
export const endOf = (record: LogRecord, at: Micros) => at + (record.query_time_us ?? 0);

/**
 * The story of a connection: its records in their order, with the pauses between them, the numbers
 * that are missing, and its transactions. `records` are in the order of the hub's answer, by time.
 */
export function steps(records: LogRecord[]): Step[] {
  const sorted = joined(records).sort(
    (a, b) => (a.conn_seq ?? 0) - (b.conn_seq ?? 0) || a.seq - b.seq,
  );
  const begin = sorted[0] ? (parseInstant(sorted[0].ts) ?? 0) : 0;
  const found: Step[] = [];
  let isOpen = false;
  let free = begin;
  let number = 0;
  for (const record of sorted) {
    const at = parseInstant(record.ts) ?? free;
    const inside: Bracket = isOpen ? "inside" : "none";
    const missing = (record.conn_seq ?? number + 1) - number - 1;
    if (missing > 0) {
      found.push({ kind: "missing", count: missing, bracket: inside });
    }
    if (at - free >= IDLE) {
      found.push({ kind: "idle", length: at - free, bracket: inside });
    }
    number = Math.max(number, record.conn_seq ?? number);
    free = Math.max(free, endOf(record, at));
    const bracket = bracketOf(record, isOpen);
    isOpen = bracket === "begin" || bracket === "inside";
    found.push({ kind: "record", record, at, offset: at - begin, bracket });
  }
  return found;
}

/** A long statement has two lines: the one that completes it gets the text of the first. */
function joined(records: LogRecord[]): LogRecord[] {
  const running = new Map(
    records.filter((one) => one.outcome === "running").map((one) => [one.seq, one]),
  );
  const completed = new Set(
    records.filter((one) => one.outcome !== "running").map((one) => one.running_seq),
  );
  return records
    .filter((one) => one.outcome !== "running" || !completed.has(one.running_seq ?? one.seq))
    .map((one) => {
      const first = one.running_seq === undefined ? undefined : running.get(one.running_seq);
      return first?.sql === undefined ? one : { ...one, sql: first.sql };
    });
}

function bracketOf(record: LogRecord, isOpen: boolean): Bracket {
  const sql = record.sql ?? "";
  if (record.event === "disconnect") {
    return isOpen ? "end" : "none";
  }
  if (record.outcome !== "error" && BEGIN.test(sql)) {
    return isOpen ? "inside" : "begin";
  }
  if (isOpen && END.test(sql)) {
    return "end";
  }
  return isOpen ? "inside" : "none";
}

/** What the head of the page says. */
export interface Totals {
  first: LogRecord | undefined;
  last: LogRecord | undefined;
  from: Micros;
  to: Micros;
  statements: number;
  errors: number;
  busy: Micros;
  rowsSent: number;
  rowsAffected: number;
  missing: number;
}

export function totals(all: Step[]): Totals {
  const records = all.filter((step) => step.kind === "record");
  const sum = { statements: 0, errors: 0, busy: 0, rowsSent: 0, rowsAffected: 0, missing: 0 };
  let to = 0;
  for (const step of all) {
    if (step.kind === "missing") {
      sum.missing += step.count;
    }
    if (step.kind !== "record") {
      continue;
    }
    to = Math.max(to, endOf(step.record, step.at));
    if (step.record.event === "statement" && step.record.outcome !== "running") {
      sum.statements += 1;
      sum.busy += step.record.query_time_us ?? 0;
      sum.rowsSent += step.record.rows_sent ?? 0;
      sum.rowsAffected += step.record.rows_affected ?? 0;
    }
    if (step.record.outcome === "error" || step.record.event === "connect_failed") {
      sum.errors += 1;
    }
  }
  const [first, last] = [records[0], records.at(-1)];
  return { ...sum, first: first?.record, last: last?.record, from: first?.at ?? 0, to };
}
