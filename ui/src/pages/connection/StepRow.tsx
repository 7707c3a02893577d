import { type Accessor, Match, Switch } from "solid-js";
import { SummaryLine, Text } from "../../components/Text.tsx";
import { result, rows, summary } from "../../lib/describe.ts";
import { compact, duration, plural } from "../../lib/format.ts";
import type { Step } from "../../lib/timeline.ts";

interface Props {
  step: Step;
  index: Accessor<number>;
  isSelected: boolean;
  onSelect: (index: number) => void;
}

/** One line of a connection: a record, a pause, or numbers that are missing. */
export function StepRow(props: Props) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the list around it has the keys
    // biome-ignore lint/a11y/useFocusableInteractive: the list has the focus and names this row
    <div
      class={`row step step-${props.step.kind}`}
      classList={{ at: props.isSelected }}
      id={`row-${props.index()}`}
      role="option"
      aria-selected={props.isSelected}
      onClick={() => props.onSelect(props.index())}
    >
      <span class={`bracket ${props.step.bracket}`} aria-hidden="true" />
      <Switch>
        <Match when={props.step.kind === "idle" && props.step}>
          {(step) => <span class="step-note">{duration(step().length)} idle</span>}
        </Match>
        <Match when={props.step.kind === "missing" && props.step}>
          {(step) => (
            <span class="step-note" title="The filter removed these statements after they ended">
              {plural(step().count, "event")} not recorded, removed by the filter
            </span>
          )}
        </Match>
        <Match when={props.step.kind === "record" && props.step}>
          {(step) => <Cells step={step()} />}
        </Match>
      </Switch>
    </div>
  );
}

function Cells(props: { step: Step & { kind: "record" } }) {
  const record = () => props.step.record;
  const end = () => result(record());
  const text = () => summary(record());
  const count = () => (record().event === "statement" ? rows(record()) : undefined);
  return (
    <>
      <span class="c-offset num muted">
        {props.step.offset === 0 ? "+0" : `+${duration(props.step.offset)}`}
      </span>
      <span class={`c-result num ${end().tone}`} classList={{ muted: end().tone === "" }}>
        <span class="cut">
          <Text value={end().word} />
        </span>
      </span>
      <span class="c-took num">
        {record().query_time_us === undefined ? "" : duration(record().query_time_us ?? 0)}
      </span>
      <span class="c-rows num second">{count() === undefined ? "" : compact(count() ?? 0)}</span>
      <span class="c-text">
        <SummaryLine of={text()} />
      </span>
    </>
  );
}
