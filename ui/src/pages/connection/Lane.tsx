import { createMemo } from "solid-js";
import { result } from "../../lib/describe.ts";
import { clock, type Micros } from "../../lib/time.ts";
import { endOf, type Step } from "../../lib/timeline.ts";

const WIDTH = 1000;
const HEIGHT = 40;

interface Props {
  steps: Step[];
  from: Micros;
  to: Micros;
  selected: number;
  onSelect: (index: number) => void;
}

/** All of the connection in one line: statements as bars, transactions as a band below them. */
export function Lane(props: Props) {
  const length = () => Math.max(1, props.to - props.from);
  const x = (at: Micros) => ((at - props.from) / length()) * WIDTH;
  const paths = createMemo(() => {
    const d = { plain: "", bad: "", band: "" };
    let begin: number | null = null;
    for (const step of props.steps) {
      if (step.kind !== "record") {
        continue;
      }
      const left = x(step.at);
      const width = Math.max(1.2, x(endOf(step.record, step.at)) - left);
      const rect = `M${left.toFixed(1)} 4h${width.toFixed(1)}v22h${(-width).toFixed(1)}z`;
      d[result(step.record).tone === "bad" ? "bad" : "plain"] += rect;
      if (step.bracket === "begin") {
        begin = left;
      }
      if (step.bracket === "end" && begin !== null) {
        d.band += `M${begin.toFixed(1)} 32h${Math.max(2, left + width - begin).toFixed(1)}`;
        begin = null;
      }
    }
    return d;
  });
  const pick = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = props.from + ((event.clientX - box.left) / box.width) * length();
    let best = -1;
    let distance = Number.POSITIVE_INFINITY;
    props.steps.forEach((step, index) => {
      if (step.kind === "record" && Math.abs(step.at - at) < distance) {
        best = index;
        distance = Math.abs(step.at - at);
      }
    });
    props.onSelect(best);
  };
  const marker = () => {
    const step = props.steps[props.selected];
    return step?.kind === "record" ? x(step.at) : -10;
  };
  return (
    <figure class="lane">
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the list below has the keys */}
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label="Statements over time"
        onClick={pick}
      >
        <path class="lane-band" d={paths().band} vector-effect="non-scaling-stroke" />
        <path class="lane-bars" d={paths().plain} />
        <path class="lane-bars bad-bars" d={paths().bad} />
        <path
          class="lane-marker"
          d={`M${marker().toFixed(1)} 0v${HEIGHT}`}
          vector-effect="non-scaling-stroke"
        />
      </svg>
      <figcaption class="histogram-axis">
        <span>{clock(props.from, 3)}</span>
        <span>{clock(props.to, 3)}</span>
      </figcaption>
    </figure>
  );
}
