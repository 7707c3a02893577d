import { For } from "solid-js";
import { type Shortcut, shortcuts } from "../lib/keyboard.ts";
import { Dialog } from "./Dialog.tsx";

function groups(): [string, Shortcut[]][] {
  const found = new Map<string, Shortcut[]>();
  for (const one of shortcuts()) {
    const list = (found.get(one.group) ?? []).filter((other) => other.keys !== one.keys);
    found.set(one.group, [...list, one]);
  }
  return [...found];
}

const NAMES: Record<string, string> = {
  ArrowDown: "↓",
  ArrowUp: "↑",
  ArrowLeft: "←",
  ArrowRight: "→",
  Escape: "Esc",
  Enter: "↵",
};

/** The shortcuts of the current page. */
export function ShortcutList(props: { close: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" close={props.close}>
      <For each={groups()}>
        {([group, list]) => (
          <section>
            <h3 class="menu-title">{group}</h3>
            <ul class="shortcut-list">
              <For each={list}>
                {(one) => (
                  <li>
                    {one.label}
                    <span>
                      <For each={one.keys.split(" ")}>
                        {(key) => <kbd class="kbd">{NAMES[key] ?? key}</kbd>}
                      </For>
                    </span>
                  </li>
                )}
              </For>
            </ul>
          </section>
        )}
      </For>
    </Dialog>
  );
}
