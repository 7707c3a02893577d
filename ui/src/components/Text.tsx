import { For, Show } from "solid-js";
import { oneLine, reveal } from "../lib/hostile.ts";
import { tokens } from "../lib/sql.ts";

/** A text from a record: never markup, and what cannot be seen is shown by name. */
export function Text(props: { value: string }) {
  return (
    <For each={reveal(props.value)}>
      {(piece) => (
        <Show when={piece.isHidden} fallback={piece.text}>
          <span class="hidden-character">{piece.text}</span>
        </Show>
      )}
    </For>
  );
}

function Tokens(props: { sql: string }) {
  return (
    <For each={tokens(props.sql)}>
      {(token) => (
        <Show when={token.kind !== "other"} fallback={<Text value={token.text} />}>
          <span class={token.kind}>
            <Text value={token.text} />
          </span>
        </Show>
      )}
    </For>
  );
}

/** What a record did, in one line: its statement, or words. */
export function SummaryLine(props: { of: { text: string; isSql: boolean } }) {
  return (
    <Show
      when={props.of.isSql}
      fallback={
        <span class="cut second">
          <Text value={props.of.text} />
        </span>
      }
    >
      <SqlLine sql={props.of.text} />
    </Show>
  );
}

/** A statement in one line; longer ones are cut. */
export function SqlLine(props: { sql: string }) {
  return (
    <span class="sql-line cut">
      <Tokens sql={oneLine(props.sql)} />
    </span>
  );
}

/** A statement as it was sent. */
export function SqlBlock(props: { sql: string }) {
  return (
    <pre class="sql">
      <Tokens sql={props.sql} />
    </pre>
  );
}
