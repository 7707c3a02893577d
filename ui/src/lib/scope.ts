import { createSignal } from "solid-js";
import { patch, place } from "./router.ts";
import { type Micros, relativeLength, resolve, writeInstant } from "./time.ts";

/** The time range and the servers that all pages are about. They are in the URL. */

const DEFAULT_FROM = "-1h";

function valid(text: string | null, fallback: string): string {
  return text !== null && resolve(text) !== null ? text : fallback;
}

export const from = () => valid(place().params.get("from"), DEFAULT_FROM);
export const to = () => valid(place().params.get("to"), "now");
export const servers = (): string[] => place().params.getAll("server");

/** Whether the range ends now, so that answers change while they are looked at. */
export const isCurrent = () => to() === "now";

export const scope = () => ({ from: from(), to: to(), server: servers() });

/** How often a page with this range is worth asking again, in ms; `null`: it does not change. */
export function refreshMs(): number | null {
  if (!isCurrent() || isPaused()) {
    return null;
  }
  const length = relativeLength(from()) ?? 0;
  return length <= 3_600_000_000 ? 5000 : 30_000;
}

const [isPaused, setPaused] = createSignal(false);

/** Whether the reader has stopped the regular refresh. */
export { isPaused, setPaused };

export function setRange(start: string, end: string): void {
  patch({
    from: start === DEFAULT_FROM && end === "now" ? null : start,
    to: end === "now" ? null : end,
  });
}

/** Zooms to instants: of a drag over a chart. */
export function zoom(start: Micros, end: Micros): void {
  setRange(writeInstant(Math.floor(start)), writeInstant(Math.ceil(end)));
}

/** Shows twice as much time around the same middle. */
export function zoomOut(): void {
  const now = Date.now() * 1000;
  const [start, end] = [resolve(from(), now), resolve(to(), now)];
  if (start === null || end === null) {
    return;
  }
  const half = Math.max((end - start) / 2, 1000);
  const limit = Math.min(end + half, now);
  zoom(start - half, Math.max(limit, end));
}

export function setServers(names: string[]): void {
  patch({ server: names });
}
