import { createSignal, onCleanup } from "solid-js";

/** Keyboard shortcuts: one key, or `g` and a key. */
export interface Shortcut {
  keys: string;
  label: string;
  group: string;
  run: () => void;
}

const [shortcuts, setShortcuts] = createSignal<Shortcut[]>([]);

/** Those of the current page, for the list that `?` shows. */
export { shortcuts };

/** Adds shortcuts for as long as the component exists. A later one hides an earlier one. */
export function useShortcuts(list: Shortcut[]): void {
  setShortcuts((all) => [...all, ...list]);
  onCleanup(() => setShortcuts((all) => all.filter((one) => !list.includes(one))));
}

const PREFIX_MS = 1000;
let prefixAt = Number.NEGATIVE_INFINITY;

/** Whether keys that are typed belong to the element. */
export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

export function listen(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) {
      return;
    }
    if (isTyping(event.target)) {
      return;
    }
    if (document.querySelector("dialog[open]") && event.key !== "Escape") {
      return;
    }
    const hasPrefix = event.timeStamp - prefixAt < PREFIX_MS;
    prefixAt = Number.NEGATIVE_INFINITY;
    if (event.key === "g" && !hasPrefix) {
      prefixAt = event.timeStamp;
      return;
    }
    const keys = hasPrefix ? `g ${event.key}` : event.key;
    const found = shortcuts().findLast((one) => one.keys === keys);
    if (found) {
      event.preventDefault();
      found.run();
    }
  });
}
