import { createSignal, For, Show } from "solid-js";
import { from, setRange, to } from "../lib/scope.ts";
import { dateTime, parseTyped, rangeLabel, resolve, zone, zoneName } from "../lib/time.ts";
import { Icon } from "./Icon.tsx";
import { Menu } from "./Menu.tsx";

const PRESETS = ["-5m", "-15m", "-1h", "-6h", "-24h", "-7d", "-30d", "-183d"];

/** Shows and changes the time range of the page. */
export function RangePicker() {
  return (
    <Menu
      label="Time range"
      button={
        <>
          <Icon name="clock" />
          <span class="num">{rangeLabel(from(), to())}</span>
          <Icon name="down" size={14} />
        </>
      }
    >
      {(close) => (
        <>
          <For each={PRESETS}>
            {(preset) => (
              <button
                type="button"
                class="item"
                classList={{ at: from() === preset && to() === "now" }}
                onClick={() => {
                  setRange(preset, "now");
                  close();
                }}
              >
                {rangeLabel(preset, "now")}
              </button>
            )}
          </For>
          <div class="menu-line" />
          <Custom close={close} />
        </>
      )}
    </Menu>
  );
}

function shown(text: string): string {
  const at = resolve(text);
  return text === "now" || text.startsWith("-") || at === null ? text : dateTime(at);
}

function Custom(props: { close: () => void }) {
  const [start, setStart] = createSignal(shown(from()));
  const [end, setEnd] = createSignal(shown(to()));
  const [problem, setProblem] = createSignal("");
  const apply = (event: Event) => {
    event.preventDefault();
    const [first, last] = [parseTyped(start()), parseTyped(end())];
    if (first === null || last === null) {
      setProblem("Use 2026-11-26 02:30, -15m or now");
      return;
    }
    if ((resolve(first) ?? 0) >= (resolve(last) ?? 0)) {
      setProblem("The range must end after it begins");
      return;
    }
    setRange(first, last);
    props.close();
  };
  return (
    <form class="range-form" onSubmit={apply}>
      <label>
        <span class="label">From</span>
        <input
          class="input num"
          value={start()}
          onInput={(event) => setStart(event.currentTarget.value)}
          spellcheck={false}
        />
      </label>
      <label>
        <span class="label">To</span>
        <input
          class="input num"
          value={end()}
          onInput={(event) => setEnd(event.currentTarget.value)}
          spellcheck={false}
        />
      </label>
      <Show
        when={problem()}
        fallback={<span class="muted small">Times in {zone() && zoneName()}</span>}
      >
        <span class="field-error" role="alert">
          {problem()}
        </span>
      </Show>
      <button type="submit" class="button primary">
        Apply
      </button>
    </form>
  );
}
