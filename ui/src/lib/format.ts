/** Numbers as people read them. A thin space separates number and unit. */

const THIN = "\u2009";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** `12,345`. */
export const integer = (n: number) => whole.format(n);

function digits(n: number): string {
  const size = Math.abs(n);
  const places = size >= 100 || Number.isInteger(n) ? 0 : size >= 10 ? 1 : 2;
  return n.toFixed(places);
}

/** Three significant digits: `847`, `12.3k`, `1.25M`. */
export function compact(n: number): string {
  const size = Math.abs(n);
  if (size >= 999_500_000) {
    return `${digits(n / 1e9)}G`;
  }
  if (size >= 999_500) {
    return `${digits(n / 1e6)}M`;
  }
  if (size >= 10_000) {
    return `${digits(n / 1e3)}k`;
  }
  if (size >= 1000) {
    return whole.format(n);
  }
  return digits(n);
}

/** A rate or another small number: `0`, `0.04`, `3.2`, `118`. */
export function rate(n: number): string {
  if (n !== 0 && Math.abs(n) < 0.01) {
    return "<0.01";
  }
  return Math.abs(n) >= 10_000 ? compact(n) : digits(Math.round(n * 100) / 100);
}

/** µs as the largest unit that keeps three digits: `412 µs`, `1.87 ms`, `2.31 s`, `4.87 min`. */
export function duration(us: number): string {
  const [size, unit] = scaled(us);
  return `${unit === "µs" ? Math.round(size) : digits(size)}${THIN}${unit}`;
}

function scaled(us: number): [number, string] {
  if (us < 1000) {
    return [us, "µs"];
  }
  if (us < 999_500) {
    return [us / 1e3, "ms"];
  }
  if (us < 60e6) {
    return [us / 1e6, "s"];
  }
  if (us < 3600e6) {
    return [us / 60e6, "min"];
  }
  return us < 48 * 3600e6 ? [us / 3600e6, "h"] : [us / 86_400e6, "d"];
}

/** `310 B`, `4.7 MiB`. */
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = n;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : digits(size)}${THIN}${units[unit]}`;
}

/** `0.42` is `42%`; small parts keep a digit. */
export function percent(part: number): string {
  const value = part * 100;
  if (value > 0 && value < 0.1) {
    return "<0.1%";
  }
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)}%`;
}

/** `1 record`, `2 records`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${integer(n)} ${n === 1 ? one : many}`;
}

/** A message of the hub, which writes them for logs as well, in lower case. Names stay. */
export const sentence = (text: string) =>
  /^[a-z]+(?![\w.:'(])/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
