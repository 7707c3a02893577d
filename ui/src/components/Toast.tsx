import { createSignal, Show } from "solid-js";

const SHOWN_MS = 2500;
const [message, setMessage] = createSignal("");
let timer: ReturnType<typeof setTimeout> | undefined;

/** Says briefly that something has been done. */
export function toast(text: string): void {
  clearTimeout(timer);
  setMessage(text);
  timer = setTimeout(() => setMessage(""), SHOWN_MS);
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    toast("The browser does not permit copying");
  }
}

export function Toast() {
  return (
    <div role="status" aria-live="polite">
      <Show when={message()}>
        <div class="toast">{message()}</div>
      </Show>
    </div>
  );
}
