import { createSignal } from "solid-js";
import { load, save } from "./storage.ts";

/** Instants are µs since 1970: exact in a number until the year 2255. */
export type Micros = number;

export const SECOND = 1_000_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export type Zone = "local" | "utc";

const isZone = (value: unknown): value is Zone => value === "local" || value === "utc";
const [zone, setZoneSignal] = createSignal<Zone>(load<Zone>("tacho.zone", "local", isZone));

/** The zone in which times are shown. */
export { zone };

export function setZone(next: Zone): void {
  save("tacho.zone", next);
  setZoneSignal(next);
}

const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d{1,9}))?(?:Z|[+-]\d\d:\d\d)$/;

/** Parses RFC 3339, with its microseconds, which `Date` drops. */
export function parseInstant(text: string): Micros | null {
  const match = RFC3339.exec(text);
  if (!match) {
    return null;
  }
  const fraction = match[1];
  const ms = Date.parse(fraction === undefined ? text : text.replace(`.${fraction}`, ""));
  if (Number.isNaN(ms)) {
    return null;
  }
  return ms * 1000 + Number((fraction ?? "").padEnd(6, "0").slice(0, 6));
}

/** Writes RFC 3339 in UTC with six digits. */
export function writeInstant(at: Micros): string {
  const rest = ((at % SECOND) + SECOND) % SECOND;
  const seconds = new Date((at - rest) / 1000).toISOString().slice(0, 19);
  return `${seconds}.${String(rest).padStart(6, "0")}Z`;
}

const UNITS: Record<string, Micros> = {
  s: SECOND,
  m: MINUTE,
  h: HOUR,
  d: DAY,
  w: 7 * DAY,
};

/** The length of `-15m`, or `null` if the text is not of that form. */
export function relativeLength(text: string): Micros | null {
  const match = /^-(\d{1,6})([smhdw])$/.exec(text);
  return match ? Number(match[1]) * (UNITS[match[2] ?? ""] ?? 0) : null;
}

/** The instant of a text of the time picker or the URL: RFC 3339, `-15m` or `now`. */
export function resolve(text: string, now: Micros = Date.now() * 1000): Micros | null {
  if (text === "now") {
    return now;
  }
  const length = relativeLength(text);
  return length === null ? parseInstant(text) : now - length;
}

/** What a person types: the forms of `resolve`, and local `2026-11-26 02:30[:15]`. */
export function parseTyped(text: string): string | null {
  const typed = text.trim();
  if (typed === "now" || relativeLength(typed) !== null) {
    return typed;
  }
  const exact = parseInstant(typed);
  if (exact !== null) {
    return writeInstant(exact);
  }
  const match = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(?::(\d\d(?:\.\d{1,6})?))?)?$/.exec(typed);
  if (!match) {
    return null;
  }
  const [, date, clock = "00:00", seconds = "00"] = match;
  const suffix = zone() === "utc" ? "Z" : "";
  const ms = Date.parse(`${date}T${clock}:${seconds.slice(0, 2)}${suffix}`);
  if (Number.isNaN(ms)) {
    return null;
  }
  return writeInstant(ms * 1000 + Number(seconds.slice(3).padEnd(6, "0")));
}

interface Parts {
  year: number;
  month: number;
  day: number;
  time: string;
}

const two = (n: number) => String(n).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun"].concat([
  "Jul",
  "Aug",
  "Sep",
  "Oct",
  "Nov",
  "Dec",
]);

function parts(at: Micros): Parts {
  const date = new Date(Math.floor(at / 1000));
  if (zone() === "utc") {
    const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
    return {
      year: date.getUTCFullYear(),
      month: date.getUTCMonth(),
      day: date.getUTCDate(),
      time,
    };
  }
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return { year: date.getFullYear(), month: date.getMonth(), day: date.getDate(), time };
}

function fraction(at: Micros, digits: number): string {
  const micros = ((at % SECOND) + SECOND) % SECOND;
  return String(micros).padStart(6, "0").slice(0, digits);
}

/** `02:31:05`, with `digits` of the fraction. */
export function clock(at: Micros, digits = 0): string {
  const { time } = parts(at);
  return digits === 0 ? time : `${time}.${fraction(at, digits)}`;
}

/** `Nov 26`. */
export function day(at: Micros): string {
  const { month, day } = parts(at);
  return `${MONTHS[month]} ${day}`;
}

/** `2026-11-26 02:31:05`, with `digits` of the fraction. */
export function dateTime(at: Micros, digits = 0): string {
  const { year, month, day } = parts(at);
  return `${year}-${two(month + 1)}-${two(day)} ${clock(at, digits)}`;
}

export function isSameDay(a: Micros, b: Micros): boolean {
  const [x, y] = [parts(a), parts(b)];
  return x.year === y.year && x.month === y.month && x.day === y.day;
}

/** `local time` or `UTC`, for titles. */
export const zoneName = () =>
  zone() === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;

/** `12 s ago`, `3 min ago`, `5 d ago`. */
export function ago(at: Micros, now: Micros): string {
  const length = now - at;
  if (length < 0) {
    return length > -2 * SECOND ? "now" : `in ${rough(-length)}`;
  }
  return length < SECOND ? "now" : `${rough(length)} ago`;
}

/** One unit: `12 s`, `3 min`, `5 h`, `2 d`. */
export function rough(length: Micros): string {
  if (length < MINUTE) {
    return `${Math.round(length / SECOND)} s`;
  }
  if (length < HOUR) {
    return `${Math.round(length / MINUTE)} min`;
  }
  if (length < 2 * DAY) {
    return `${Math.round(length / HOUR)} h`;
  }
  return `${Math.round(length / DAY)} d`;
}

const WORDS: Record<string, string> = { s: "second", m: "minute", h: "hour", d: "day", w: "week" };

/** How a range is named on the button: `Last 15 minutes`, or its two ends. */
export function rangeLabel(from: string, to: string): string {
  const match = /^-(\d+)([smhdw])$/.exec(from);
  if (match && to === "now") {
    const count = Number(match[1]);
    const word = WORDS[match[2] ?? ""] ?? "";
    return count === 1 ? `Last ${word}` : `Last ${count} ${word}s`;
  }
  const [start, end] = [resolve(from), resolve(to)];
  if (start === null || end === null) {
    return "Invalid range";
  }
  const digits = end - start < 10 * SECOND ? 3 : 0;
  const until = isSameDay(start, end) ? clock(end, digits) : `${day(end)}, ${clock(end, digits)}`;
  return `${day(start)}, ${clock(start, digits)} – ${to === "now" ? "now" : until}`;
}
