// For each workload, one picture of each thing that auditing can cost: a line per method with its
// name, the interval, and the same in words. What is not known has words alone.

const ASPECTS = {
  qps: ["Throughput", "Queries/s that are lost, in percent."],
  cpu_us_per_query: ["Processor time", "Added processor time of the server per query, in percent."],
  p99_us: ["p99 latency", "Added latency that 99 % of the events do not exceed, in percent."],
};

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
const TICKS_MAX = 6;

// From the least to the most that is drawn. The noise may widen it, but does not decide what is
// legible.
function axisOf(drawn) {
  let low = Math.min(0, ...drawn.map((answer) => answer.low));
  let high = Math.max(0, ...drawn.map((answer) => answer.high));
  const margin = Math.max(0.5, (high - low) / 2);
  low = Math.max(Math.min(low, ...drawn.map((answer) => answer.floor_low)), low - margin);
  high = Math.min(Math.max(high, ...drawn.map((answer) => answer.floor_high)), high + margin);
  const edge = (high - low) * 0.03;
  [low, high] = [low - edge, high + edge];
  const step = STEPS.find((size) => (high - low) / size <= TICKS_MAX) ?? STEPS.at(-1);
  const first = Math.ceil(low / step);
  const count = Math.floor(high / step) - first + 1;
  const ticks = Array.from({ length: count }, (_, index) => (first + index) * step);
  const place = (value) => ((value - low) / (high - low)) * 100;
  return { ticks, step, place: (value) => Math.min(100, Math.max(0, place(value))) };
}

const mark = (kind, left, right = left) =>
  element("i", { class: kind, style: `left:${left}%;width:${right - left}%` });

function track(axis, answer) {
  const marks = axis.ticks.map((tick) => mark(tick === 0 ? "zero" : "tick", axis.place(tick)));
  const { low, high, cost } = answer;
  return element(
    "span",
    { class: "track" },
    element(
      "span",
      { class: "inner" },
      mark("floor", axis.place(answer.floor_low), axis.place(answer.floor_high)),
      ...marks,
      mark("interval", axis.place(low), axis.place(high)),
      mark("dot", axis.place(cost)),
    ),
  );
}

function labels(axis) {
  const digits = axis.step < 1 ? 1 : 0;
  const texts = axis.ticks.map((tick) =>
    element(
      "span",
      { style: `left:${axis.place(tick)}%` },
      tick === 0 ? "0" : `${number(tick, digits).replace("-", "−")} %`,
    ),
  );
  const inner = element("span", { class: "inner" }, ...texts);
  return element("div", { class: "row axis" }, element("span", { class: "track" }, inner));
}

function row(axis, answer, name) {
  const subject = answer.method === "tacho" ? " subject" : "";
  return element(
    "div",
    { class: `row ${answer.certainty}${subject}` },
    element("span", { class: "name" }, name),
    answer.cost == null ? null : track(axis, answer),
    element("span", { class: "words" }, answer.words),
  );
}

function panel(figure, found) {
  const [title, text] = ASPECTS[figure];
  const drawn = found.filter((answer) => answer.cost != null);
  const axis = drawn.length ? axisOf(drawn) : null;
  const rows = [];
  const hasOneLoad = new Set(found.map(loadKey)).size === 1;
  for (const name of methodNames) {
    const mine = found.filter((answer) => answer.method === name);
    if (hasOneLoad) {
      rows.push(...mine.map((answer) => row(axis, answer, titleOf(name))));
    } else if (mine.length) {
      rows.push(element("div", { class: "row group" }, titleOf(name)));
      rows.push(...mine.map((answer) => row(axis, answer, clientsOf(answer))));
    }
  }
  return element(
    "div",
    { class: "panel", "data-figure": figure },
    element("h3", {}, title),
    element("p", { class: "soft" }, text),
    ...rows,
    axis ? labels(axis) : null,
  );
}

function picture(workload) {
  const mine = answers.filter((answer) => answer.workload === workload);
  // The figure that answers for the run comes first.
  const panels = [...new Set(mine.map((answer) => answer.figure))].map((figure) =>
    panel(
      figure,
      mine.filter((answer) => answer.figure === figure),
    ),
  );
  const other = baseline === "none" ? "the server without an audit" : titleOf(baseline);
  const isDrawn = mine.some((answer) => answer.cost != null);
  const marks =
    " A dot is the estimate, the line its 95 % interval; a hollow dot is no finding, only a bound." +
    " Grey is the server compared with itself: a cost inside it has not been measured.";
  return section(workload, `Compared with ${other}.${isDrawn ? marks : ""}`, ...panels);
}

const pictures = () => [...new Set(answers.map((answer) => answer.workload))].map(picture);
