/** Reads and writes the browser's storage; without storage, settings last as long as the page. */

const memory = new Map<string, string>();

export function load<T>(key: string, fallback: T, isValid: (value: unknown) => value is T): T {
  let text: string | null | undefined = memory.get(key);
  try {
    text ??= localStorage.getItem(key);
    const value: unknown = text === null || text === undefined ? fallback : JSON.parse(text);
    return isValid(value) ? value : fallback;
  } catch {
    return fallback;
  }
}

export function save(key: string, value: unknown): void {
  const text = JSON.stringify(value);
  memory.set(key, text);
  try {
    localStorage.setItem(key, text);
  } catch {
    // Blocked or full: `memory` has it.
  }
}
