import { createSignal, Show } from "solid-js";
import { Icon } from "./Icon.tsx";
import { Text } from "./Text.tsx";
import { copy } from "./Toast.tsx";

/** A text that is shown on request, exactly as it is. */
export function Raw(props: { title: string; text: string }) {
  const [isOpen, setOpen] = createSignal(false);
  return (
    <section class="raw">
      <button
        type="button"
        class="button plain"
        aria-expanded={isOpen()}
        classList={{ turned: isOpen() }}
        onClick={() => setOpen(!isOpen())}
      >
        <Icon name="down" size={14} />
        {props.title}
      </button>
      <Show when={isOpen()}>
        <div class="sql-panel inset">
          <pre class="sql">
            <Text value={props.text} />
          </pre>
          <button
            type="button"
            class="button plain icon"
            aria-label="Copy the text"
            title="Copy"
            onClick={() => void copy(props.text, "Text")}
          >
            <Icon name="copy" />
          </button>
        </div>
      </Show>
    </section>
  );
}
