import { type Accessor, Show } from "solid-js";
import type { LogRecord } from "../api/types.ts";
import { result, rows, summary } from "../lib/describe.ts";
import { compact, duration } from "../lib/format.ts";
import { clock, day, parseInstant } from "../lib/time.ts";
import { SummaryLine, Text } from "./Text.tsx";

interface Props {
  record: LogRecord;
  index: Accessor<number>;
  isSelected: boolean;
  /** Whether the list has more than one server or day, so that each row has to name it. */
  hasServer: boolean;
  hasDay: boolean;
  onSelect: (index: number) => void;
}

/** One record in one line, or on narrow screens in two. */
export function RecordRow(props: Props) {
  const at = () => parseInstant(props.record.ts ?? "");
  const end = () => result(props.record);
  const text = () => summary(props.record);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the list around it has the keys
    // biome-ignore lint/a11y/useFocusableInteractive: the list has the focus and names this row
    <div
      class="row"
      classList={{
        at: props.isSelected,
        "with-server": props.hasServer,
        "with-day": props.hasDay,
        error: end().tone === "bad",
      }}
      id={`row-${props.index()}`}
      role="option"
      aria-selected={props.isSelected}
      onClick={() => props.onSelect(props.index())}
    >
      <span class="c-time num">
        <Show when={props.hasDay}>
          <span class="muted">{day(at() ?? 0)} </span>
        </Show>
        {at() === null ? "–" : clock(at() ?? 0, 3)}
      </span>
      <Show when={props.hasServer}>
        <span class="c-server cut second">
          <Text value={props.record.server} />
        </span>
      </Show>
      <span class="c-user cut">
        <Text value={props.record.user ?? ""} />
      </span>
      <span class="c-db cut second">
        <Text value={props.record.db ?? ""} />
      </span>
      <span class={`c-result num ${end().tone}`} classList={{ muted: end().tone === "" }}>
        <span class="cut">
          <Text value={end().word} />
        </span>
      </span>
      <span class="c-took num">
        {props.record.query_time_us === undefined ? "" : duration(props.record.query_time_us)}
      </span>
      <span class="c-rows num" classList={{ muted: rows(props.record) === 0 }}>
        {rowCount(props.record)}
      </span>
      <span class="c-text">
        <SummaryLine of={text()} />
      </span>
    </div>
  );
}

function rowCount(record: LogRecord): string {
  const count = rows(record);
  return count === undefined || record.event !== "statement" ? "" : compact(count);
}

/** The names of the columns, above the list. */
export function RecordHead(props: { hasServer: boolean; hasDay: boolean }) {
  return (
    <div
      class="row row-head"
      classList={{ "with-server": props.hasServer, "with-day": props.hasDay }}
      aria-hidden="true"
    >
      <span class="c-time">Time</span>
      <Show when={props.hasServer}>
        <span class="c-server">Server</span>
      </Show>
      <span class="c-user">User</span>
      <span class="c-db">Database</span>
      <span class="c-result">Result</span>
      <span class="c-took">Took</span>
      <span class="c-rows">Rows</span>
      <span class="c-text">Statement</span>
    </div>
  );
}
