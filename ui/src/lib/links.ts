import type { LogRecord } from "../api/types.ts";
import { href } from "./router.ts";

const part = (value: string | number) => encodeURIComponent(String(value));

/** The page of a record. */
export const recordHref = (record: Pick<LogRecord, "server" | "seq">) =>
  href(`/records/${part(record.server)}/${part(record.seq)}`);

/** The page of a connection, or `null` if the record belongs to none. */
export function connectionHref(record: LogRecord): string | null {
  if (record.run === undefined || record.conn === undefined) {
    return null;
  }
  return href(`/connections/${part(record.server)}/${part(record.run)}/${part(record.conn)}`);
}
