import { createSignal } from "solid-js";

export type Theme = "system" | "light" | "dark";

/** public/theme.js reads it, too, before the first paint; so it is a plain word. */
const KEY = "tacho.theme";

function stored(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "system";
}

const [theme, setSignal] = createSignal<Theme>(stored());

export { theme };

/** Changes when the colors that are seen change: charts draw themselves again. */
const [paint, setPaint] = createSignal(0);

export { paint };

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setPaint((n) => n + 1));

export function setTheme(next: Theme): void {
  if (next === "system") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = next;
  }
  try {
    if (next === "system") {
      localStorage.removeItem(KEY);
    } else {
      localStorage.setItem(KEY, next);
    }
  } catch {
    // Storage is blocked: the choice lasts as long as the page.
  }
  setSignal(next);
  setPaint((n) => n + 1);
}

/** The current value of a color of the design, for a canvas. */
export function color(name: string): string {
  const probe = document.createElement("span");
  probe.style.setProperty("color", `var(${name})`);
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
