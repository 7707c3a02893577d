import { Show } from "solid-js";

const WIDTH = 96;
const HEIGHT = 20;

function line(values: number[]): string {
  const most = Math.max(...values, Number.MIN_VALUE);
  const step = WIDTH / Math.max(1, values.length - 1);
  return values
    .map((value, i) => {
      const y = HEIGHT - 1 - (value / most) * (HEIGHT - 3);
      return `${i === 0 ? "M" : "L"}${(i * step).toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}

/** A small line without axes: the course, not the values. */
export function Spark(props: { values: number[] | undefined }) {
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <Show when={props.values && props.values.length > 1 && props.values}>
        {(values) => (
          <>
            <path class="area" d={`${line(values())}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}z`} />
            <path class="line" d={line(values())} />
          </>
        )}
      </Show>
    </svg>
  );
}

/** A part of a whole, as a bar and a number. */
export function Share(props: { part: number; label: string }) {
  return (
    <div class="share">
      <div class="track">
        <div class="fill" style={{ width: `${Math.min(100, Math.max(0, props.part * 100))}%` }} />
      </div>
      <span class="num second">{props.label}</span>
    </div>
  );
}
