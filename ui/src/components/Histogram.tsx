import { createSignal, Show } from "solid-js";
import type { Histogram as Data } from "../api/types.ts";
import { plural } from "../lib/format.ts";
import { zoom } from "../lib/scope.ts";
import { clock, day, isSameDay, type Micros, parseInstant } from "../lib/time.ts";

interface Bar {
  at: Micros;
  count: number;
  errors: number;
}

interface Shape {
  from: Micros;
  to: Micros;
  step: Micros;
  bars: Bar[];
  most: number;
}

function shape(data: Data): Shape {
  const bars = data.buckets.map((bucket) => ({
    at: parseInstant(bucket.ts) ?? 0,
    count: bucket.count,
    errors: bucket.errors,
  }));
  return {
    from: parseInstant(data.from) ?? 0,
    to: parseInstant(data.to) ?? 1,
    step: data.step_us,
    bars,
    most: bars.reduce((most, bar) => Math.max(most, bar.count), 1),
  };
}

const WIDTH = 1000;
const HEIGHT = 100;

/** All bars as one path: hundreds of elements would be slower, and nothing points at one of them. */
function path(shape: Shape, height: (bar: Bar) => number): string {
  const scale = WIDTH / (shape.to - shape.from);
  const gap = shape.step * scale > 5 ? 1.2 : 0.2;
  let d = "";
  for (const bar of shape.bars) {
    const size = height(bar);
    if (size > 0) {
      const tall = Math.max(2, (size / shape.most) * HEIGHT);
      const left = Math.max(0, (bar.at - shape.from) * scale);
      const right = Math.min(WIDTH, (bar.at + shape.step - shape.from) * scale);
      d += `M${left.toFixed(2)} ${HEIGHT}v${-tall.toFixed(2)}h${Math.max(0.6, right - left - gap).toFixed(2)}v${tall.toFixed(2)}z`;
    }
  }
  return d;
}

/** How many records there are over time. A drag zooms in. */
export function Histogram(props: { data: Data | undefined; isStale: boolean }) {
  let element: HTMLDivElement | undefined;
  const [drag, setDrag] = createSignal<[number, number] | null>(null);
  const [hover, setHover] = createSignal<number | null>(null);
  const current = () => (props.data ? shape(props.data) : undefined);

  const part = (event: PointerEvent) => {
    const box = element?.getBoundingClientRect();
    return box ? Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) : 0;
  };
  const begin = (event: PointerEvent) => {
    if (event.button === 0 && current()) {
      element?.setPointerCapture(event.pointerId);
      setDrag([part(event), part(event)]);
    }
  };
  const move = (event: PointerEvent) => {
    setHover(part(event));
    const range = drag();
    if (range) {
      setDrag([range[0], part(event)]);
    }
  };
  const end = () => {
    const range = drag();
    const now = current();
    setDrag(null);
    if (range && now && Math.abs(range[1] - range[0]) > 0.005) {
      const at = (x: number) => now.from + x * (now.to - now.from);
      zoom(at(Math.min(...range)), at(Math.max(...range)));
    }
  };
  const bar = () => {
    const [x, now] = [hover(), current()];
    if (x === null || !now) {
      return undefined;
    }
    const at = now.from + x * (now.to - now.from);
    return now.bars.find((one) => one.at <= at && at < one.at + now.step);
  };
  return (
    <figure class="histogram-figure" classList={{ stale: props.isStale }}>
      <div
        ref={element}
        class="histogram"
        role="img"
        aria-label={`${plural(props.data?.total ?? 0, "record")} over time`}
        onPointerDown={begin}
        onPointerMove={move}
        onPointerUp={end}
        onPointerCancel={() => setDrag(null)}
        onPointerLeave={() => setHover(null)}
      >
        <Bars shape={current()} drag={drag()} />
      </div>
      <Axis shape={current()} bar={bar()} />
    </figure>
  );
}

function Bars(props: { shape: Shape | undefined; drag: [number, number] | null }) {
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <line
        class="base"
        x1="0"
        x2={WIDTH}
        y1={HEIGHT}
        y2={HEIGHT}
        vector-effect="non-scaling-stroke"
      />
      <Show when={props.shape}>
        {(now) => (
          <>
            <path class="bars" d={path(now(), (bar) => bar.count)} />
            <path class="bars-error" d={path(now(), (bar) => bar.errors)} />
          </>
        )}
      </Show>
      <Show when={props.drag}>
        {(range) => (
          <rect
            class="selected"
            x={Math.min(...range()) * WIDTH}
            width={Math.abs(range()[1] - range()[0]) * WIDTH}
            y="0"
            height={HEIGHT}
            vector-effect="non-scaling-stroke"
          />
        )}
      </Show>
    </svg>
  );
}

function Axis(props: { shape: Shape | undefined; bar: Bar | undefined }) {
  const label = (at: Micros, other: Micros) =>
    isSameDay(at, other) ? clock(at) : `${day(at)}, ${clock(at).slice(0, 5)}`;
  return (
    <figcaption class="histogram-axis">
      <Show when={props.shape} fallback={" "}>
        {(now) => (
          <>
            <span>{label(now().from, now().to)}</span>
            <Show when={props.bar}>
              {(bar) => (
                <span class="second">
                  {clock(bar().at)} · {plural(bar().count, "record")}
                  <Show when={bar().errors > 0}>
                    {", "}
                    <span class="bad">{plural(bar().errors, "error")}</span>
                  </Show>
                </span>
              )}
            </Show>
            <span>{label(now().to, now().from)}</span>
          </>
        )}
      </Show>
    </figcaption>
  );
}
