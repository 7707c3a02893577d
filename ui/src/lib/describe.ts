import type { LogRecord } from "../api/types.ts";
import { integer, plural } from "./format.ts";

/** What a record says, in one line; `isSql` if it is the text of a statement. */
export interface Summary {
  text: string;
  isSql: boolean;
}

const words = (text: string) => ({ text, isSql: false });

export function summary(record: LogRecord): Summary {
  if (record.raw !== undefined) {
    return words(record.raw);
  }
  switch (record.event) {
    case "statement":
    case "table":
      return statement(record);
    case "connect":
      return words(`Connected${from(record)}${record.tls ? `, ${record.tls}` : ""}`);
    case "disconnect":
      return words("Disconnected");
    case "connect_failed":
      return words(`Login failed${from(record)}${record.error ? `: ${record.error}` : ""}`);
    case "change_user":
      return words("Changed user");
    case "lost":
      return words(
        `${record.count === undefined ? "Records" : plural(record.count, "record")} lost` +
          (record.cause ? ` (${record.cause})` : ""),
      );
    case "start":
      return words(["Recorder started", record.server_version].filter(Boolean).join(": "));
    case "stop":
      return words("Recorder stopped");
    case "config":
      return words(
        `${record.variable ?? "Setting"}: ${record.old_value || "–"} → ${record.new_value || "–"}`,
      );
    case "notice":
      return words(
        [record.class, record.action, record.object, record.detail].filter(Boolean).join(" · "),
      );
    default:
      return words(String(record.event));
  }
}

function from(record: LogRecord): string {
  const where = record.host ?? record.ip;
  return where === undefined ? "" : ` from ${where}`;
}

function statement(record: LogRecord): Summary {
  if (record.sql !== undefined && record.sql !== "") {
    return { text: record.sql, isSql: true };
  }
  if (record.running_seq !== undefined) {
    return words(`Completes record ${integer(record.running_seq)}`);
  }
  if (record.error !== undefined) {
    return words(record.error);
  }
  if (record.sql_bytes !== undefined) {
    return words("Text of the statement not kept");
  }
  return words(record.command ?? "Statement");
}

/** The word and color for how a record ended. */
export function result(record: LogRecord): { word: string; tone: "ok" | "warn" | "bad" | "" } {
  if (record.raw !== undefined) {
    return { word: "unreadable", tone: "bad" };
  }
  if (record.event === "connect_failed") {
    return { word: String(record.errno ?? "failed"), tone: "bad" };
  }
  if (record.event === "lost") {
    return { word: "lost", tone: "bad" };
  }
  if (record.event === "stop" || record.event === "config") {
    return { word: record.event, tone: "warn" };
  }
  switch (record.outcome) {
    case "error":
      return { word: record.errno === undefined ? "error" : String(record.errno), tone: "bad" };
    case "interrupted":
      return { word: "interrupted", tone: "bad" };
    case "running":
      return { word: "running", tone: "warn" };
    case "ok":
      return { word: record.event === "statement" ? "ok" : record.event, tone: "" };
    default:
      return { word: record.event, tone: "" };
  }
}

/** The one count of rows that says most of a statement. */
export function rows(record: LogRecord): number | undefined {
  if (record.rows_affected !== undefined && record.rows_affected > 0) {
    return record.rows_affected;
  }
  return record.rows_sent;
}
