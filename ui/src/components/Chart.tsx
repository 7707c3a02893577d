import { createEffect, createSignal, For, on, onCleanup, onMount, Show } from "solid-js";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { zoom } from "../lib/scope.ts";
import { color, paint } from "../lib/theme.ts";
import { clock, day, MINUTE, type Micros, zone } from "../lib/time.ts";
import { Text } from "./Text.tsx";

export interface Series {
  label: string;
  /** The name of a color of the design. */
  color: string;
  values: (number | null)[];
}

interface Props {
  title: string;
  /** The beginnings of the buckets, µs. */
  ts: Micros[];
  series: Series[];
  /** Stacked: parts of a whole. */
  kind: "stacked" | "lines";
  format: (value: number) => string;
  /** The one number of the panel while nothing is pointed at. */
  figure: string;
  note?: string;
  isStale?: boolean;
}

/** A chart over the time range. A drag zooms; charts show the same instant when pointed at. */
export function Chart(props: Props) {
  const [at, setAt] = createSignal<number | null>(null);
  const value = (series: Series) => {
    const index = at();
    const shown = index === null ? undefined : series.values[index];
    return shown === null || shown === undefined ? "" : props.format(shown);
  };
  const sum = () => {
    const index = at();
    if (index === null) {
      return props.figure;
    }
    if (props.kind === "stacked") {
      return props.format(props.series.reduce((all, one) => all + (one.values[index] ?? 0), 0));
    }
    const last = props.series.at(-1)?.values[index];
    return last === null || last === undefined ? "–" : props.format(last);
  };
  const when = () => {
    const index = at();
    const instant = index === null ? undefined : props.ts[index];
    return instant === undefined ? "" : clock(instant);
  };
  return (
    <section class="panel" aria-label={props.title}>
      <div class="chart-head">
        <h2>{props.title}</h2>
        <span class="muted small num">{when() || props.note}</span>
      </div>
      <div class="chart-figures">
        <span class="figure">{sum()}</span>
        <ul class="legend">
          <For each={props.series}>
            {(one) => (
              <li style={{ "--swatch": `var(${one.color})` }}>
                <span class="swatch" />
                <span class="cut">
                  <Text value={one.label} />
                </span>
                <Show when={value(one)}>
                  <span class="strong">{value(one)}</span>
                </Show>
              </li>
            )}
          </For>
        </ul>
      </div>
      <div class="chart" classList={{ stale: props.isStale ?? false }}>
        <Show when={props.ts.length > 0} fallback={<Waiting isStale={props.isStale ?? false} />}>
          <Plot {...props} onPoint={setAt} />
        </Show>
      </div>
    </section>
  );
}

function Waiting(props: { isStale: boolean }) {
  return <div class="chart-empty">{props.isStale ? "" : "No records in this range"}</div>;
}

const SYNC = "tacho-overview";

function Plot(props: Props & { onPoint: (index: number | null) => void }) {
  let element: HTMLDivElement | undefined;
  let plot: uPlot | undefined;

  const size = () => ({
    width: element?.clientWidth ?? 300,
    height: element?.clientHeight ?? 148,
  });
  const draw = () => {
    plot?.destroy();
    if (element) {
      plot = new uPlot({ ...size(), ...options(props, props.onPoint) }, data(props), element);
    }
  };
  onMount(() => {
    draw();
    const observer = new ResizeObserver(() => plot?.setSize(size()));
    if (element) {
      observer.observe(element);
    }
    onCleanup(() => observer.disconnect());
  });
  // Other series or other colors need another plot; other values do not.
  const shape = () =>
    JSON.stringify([props.series.map((one) => [one.label, one.color]), props.kind]);
  createEffect(on([shape, paint, zone], draw, { defer: true }));
  createEffect(
    on([() => props.ts, () => props.series], () => plot?.setData(data(props)), { defer: true }),
  );
  onCleanup(() => plot?.destroy());
  return (
    <div ref={element} class="plot" role="img" aria-label={`${props.title}: ${props.figure}`} />
  );
}

/** uPlot does not stack: a series holds the sum of itself and those before it. */
function data(props: Props): uPlot.AlignedData {
  const xs = props.ts.map((at) => at / 1e6);
  if (props.kind === "lines") {
    return [xs, ...props.series.map((one) => one.values)];
  }
  const sums = new Array<number>(xs.length).fill(0);
  const stacked = props.series.map((one) =>
    sums.map((_, i) => {
      const sum = (sums[i] ?? 0) + (one.values[i] ?? 0);
      sums[i] = sum;
      return sum;
    }),
  );
  // The highest is drawn first, so that the lower ones lie on it.
  return [xs, ...stacked.reverse()];
}

function fade(solid: string, part: number): string {
  return `color-mix(in srgb, ${solid} ${Math.round(part * 100)}%, transparent)`;
}

function series(props: Props): uPlot.Series[] {
  const isStacked = props.kind === "stacked";
  const all = isStacked ? [...props.series].reverse() : props.series;
  const surface = color("--surface");
  return all.map((one) => {
    const stroke = color(one.color);
    const isAlone = props.series.length === 1;
    return {
      label: one.label,
      stroke,
      width: 1.25,
      points: { show: false },
      ...(isStacked
        ? { fill: isAlone ? fade(stroke, 0.14) : `color-mix(in srgb, ${stroke} 28%, ${surface})` }
        : {}),
    };
  });
}

function options(
  props: Props,
  onPoint: (index: number | null) => void,
): Omit<uPlot.Options, "width" | "height"> {
  const font = "11px Inter, system-ui, sans-serif";
  const text = color("--text-3");
  const line = color("--line");
  const axis = { font, stroke: text, ticks: { show: false }, border: { show: false } };
  return {
    padding: [6, 6, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: SYNC },
      points: { size: 6, width: 1.5 },
      drag: { x: true, y: false, setScale: false, dist: 4 },
      y: false,
    },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.12 : 1] } },
    axes: [
      {
        ...axis,
        size: 24,
        space: 70,
        grid: { show: false },
        values: (_, splits) => labels(splits),
      },
      {
        ...axis,
        size: 52,
        space: 34,
        gap: 6,
        grid: { stroke: line, width: 1 },
        values: (_, splits) => splits.map((value) => (value === 0 ? "0" : props.format(value))),
      },
    ],
    series: [{}, ...series(props)],
    hooks: {
      setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)],
      setSelect: [
        (plot) => {
          if (plot.select.width > 0) {
            const start = plot.posToVal(plot.select.left, "x");
            const end = plot.posToVal(plot.select.left + plot.select.width, "x");
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            zoom(start * 1e6, end * 1e6);
          }
        },
      ],
    },
  };
}

/** Times of day; the first of a day is its date. */
function labels(splits: number[]): string[] {
  const step = ((splits[1] ?? 0) - (splits[0] ?? 0)) * 1e6;
  let before = "";
  return splits.map((seconds) => {
    const at = seconds * 1e6;
    const date = day(at);
    const isFirst = before !== "" && date !== before;
    before = date;
    if (isFirst || step >= 24 * 60 * MINUTE) {
      return date;
    }
    return step < MINUTE ? clock(at) : clock(at).slice(0, 5);
  });
}
