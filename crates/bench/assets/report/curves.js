// What happened under each load, for a closer look: latency curves, and the blocks over time. Drawn
// when it is opened, because a closed place has no width.

const FONT = '12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';

// As wide as its longest label.
function labelWidth(plot, texts) {
  if (!texts?.length) return 40;
  plot.ctx.save();
  plot.ctx.font = FONT;
  const width = Math.max(...texts.map((text) => plot.ctx.measureText(text ?? "").width));
  plot.ctx.restore();
  return Math.ceil(width) + 18;
}

function axes() {
  const grid = { stroke: cssOf("--line"), width: 1 };
  const common = { stroke: cssOf("--soft"), grid, ticks: grid, font: FONT };
  const values = (_, ticks) => ticks.map((tick) => (tick == null ? "" : plain(tick)));
  return [{ ...common }, { ...common, values, size: (plot, texts) => labelWidth(plot, texts) }];
}

function chart(holder, options, data) {
  const widthOf = () => Math.max(240, holder.clientWidth);
  const plot = new uPlot(
    {
      width: widthOf(),
      height: 240,
      // Room for half of the last label.
      padding: [14, 26, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      ...options,
    },
    data,
    holder,
  );
  new ResizeObserver(() => {
    if (Math.abs(widthOf() - plot.width) > 1) {
      plot.setSize({ width: widthOf(), height: plot.height });
    }
  }).observe(holder);
}

const legend = (names) =>
  element(
    "div",
    { class: "legend" },
    ...names.map((name) =>
      element("span", {}, element("i", { style: `background:${colorOf(name)}` }), titleOf(name)),
    ),
  );

// A heading, a place for a chart, and what draws it there.
function figureOf(caption, text, names, draw) {
  const holder = element("div", { class: "chart" });
  const figure = element(
    "figure",
    {},
    element("h3", {}, caption),
    text ? element("p", { class: "soft" }, text) : null,
    names.length ? legend(names) : null,
    holder,
  );
  return { figure, draw: () => draw(holder) };
}

// ---- blocks over time --------------------------------------------------------------------

function overTime(load, caption, figure, value) {
  const mine = blocks.filter(isUnder(load)).filter((block) => Number.isFinite(value(block)));
  if (!mine.length) return null;
  const names = methodNames.filter((name) => mine.some((block) => block.method === name));
  const withheld = results.some((line) => isUnder(load)(line) && line.figures[figure]?.too_noisy);
  const text = withheld
    ? "Each piece is a block as it was measured, whatever was on: too noisy for a comparison."
    : "Each piece is a block as it was measured.";
  return figureOf(caption, text, withheld ? [] : names, (holder) => {
    const color = (block) => (withheld ? cssOf("--soft") : colorOf(block.method));
    blocksChart(holder, mine, value, color);
  });
}

function blocksChart(holder, mine, value, color) {
  // Blocks of two servers begin and end together; each is half of the time.
  const endOf = (block) => block.at_s + (sides ? 2 * run.settings.block_s : block.seconds);
  const pieces = ({ ctx, valToPos }) => {
    const height = 3 * devicePixelRatio;
    ctx.save();
    for (const block of mine) {
      const left = valToPos(block.at_s, "x", true);
      const width = valToPos(endOf(block), "x", true) - left;
      ctx.fillStyle = color(block);
      ctx.fillRect(left, valToPos(value(block), "y", true) - height / 2, width, height);
    }
    ctx.restore();
  };
  const most = Math.max(...mine.map(value));
  const times = [Math.min(...mine.map((block) => block.at_s)), Math.max(...mine.map(endOf))];
  const [x, y] = axes();
  const options = {
    scales: { x: { time: false }, y: { range: [0, (most || 1) * 1.06] } },
    axes: [{ ...x, values: (_, ticks) => ticks.map((tick) => `${tick} s`) }, y],
    // The blocks are drawn by us; the series has their times.
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: { draw: [pieces] },
  };
  chart(holder, options, [times, [most, most]]);
}

// ---- latency -----------------------------------------------------------------------------

const PERCENTILES = [
  ["p50_us", 0.5],
  ["p95_us", 0.95],
  ["p99_us", 0.99],
  ["p999_us", 1],
];

// The points of a curve up to the first percentile that is too noisy.
function quietPart(line, curve) {
  const noisy = PERCENTILES.findIndex(([name]) => line.figures[name]?.too_noisy);
  if (noisy < 0) return curve;
  const until = noisy === 0 ? 0 : PERCENTILES[noisy - 1][1];
  return curve.filter(([share]) => share <= until);
}

function latency(load) {
  const mine = results.filter(isUnder(load)).filter((line) => line.latency_curve.length > 1);
  if (!mine.length) return null;
  const floor = mine.find((line) => line.method === AGAIN);
  const curves = [
    ...(floor ? [[baseline, quietPart(floor, floor.latency_curve_off)]] : []),
    ...mine
      .filter((line) => line.method !== AGAIN)
      .map((line) => [line.method, quietPart(line, line.latency_curve)]),
  ];
  const drawn = curves.filter(([, curve]) => curve.length > 1);
  const isCut = mine.some((line) => quietPart(line, line.latency_curve) !== line.latency_curve);
  const text =
    "Share of events (transactions) that took no longer, in ms, all blocks together. " +
    (load.rate
      ? "Open loop: the wait for a late predecessor counts."
      : "Closed loop: a client that waits sends nothing, so long waits are seldom counted; " +
        "--rate shows them.") +
    (isCut ? " Where a curve ends early, what follows is too noisy." : "");
  if (!drawn.length) {
    const caption = element("h3", {}, "Latency");
    return { figure: element("figure", {}, caption, small("Too noisy to say.")), draw() {} };
  }
  return figureOf(
    "Latency",
    text,
    drawn.map(([name]) => name),
    (holder) => {
      latencyChart(holder, drawn);
    },
  );
}

function latencyChart(holder, curves) {
  const shares = [...new Set(curves.flatMap(([, curve]) => curve.map(([share]) => share)))];
  shares.sort((a, b) => a - b);
  // Nines at equal distances. All events have no place on such an axis.
  const places = shares.filter((share) => share < 1);
  const place = (share) => -Math.log10(1 - share);
  const columns = curves.map(([, curve]) => {
    const at = new Map(curve);
    return places.map((share) => (at.has(share) ? at.get(share) / 1e3 : null));
  });
  const marks = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999].filter(
    (share) => share <= places.at(-1) + 1e-9,
  );
  const percentile = (share) => `p${+(share * 100).toFixed(3)}`;
  const [x, y] = axes();
  const options = {
    height: 300,
    scales: { x: { time: false }, y: { distr: 3 } },
    axes: [{ ...x, splits: marks.map(place), values: () => marks.map(percentile) }, y],
    series: [
      {},
      ...curves.map(([name]) => ({
        label: titleOf(name),
        stroke: colorOf(name),
        width: 2,
        points: { show: false },
        spanGaps: true,
        dash: name === baseline ? [6, 4] : undefined,
      })),
    ],
  };
  chart(holder, options, [places.map(place), ...columns]);
}

// ---- the place for both ------------------------------------------------------------------

function curvesOf(load) {
  const parts = [
    latency(load),
    overTime(load, "Throughput over time, queries/s", "qps", (block) => block.qps),
    overTime(load, "Processors that the server used", "cpu_us_per_query", (block) =>
      block.cpu ? block.cpu.total_s / block.seconds : NaN,
    ),
  ].filter(Boolean);
  if (!parts.length) return null;
  const what = load.rate || !sides ? "latencies, and blocks over time" : "blocks over time";
  const details = element(
    "details",
    { class: "card" },
    element("summary", {}, `${nameOf(load)}: ${what}`),
    ...parts.map(({ figure }) => figure),
  );
  const draw = () => {
    for (const holder of details.querySelectorAll(".chart")) holder.replaceChildren();
    if (details.open) for (const part of parts) part.draw();
  };
  details.addEventListener("toggle", draw);
  // A canvas keeps the colors that it was drawn with.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return details;
}

const curves = () => loads.map(curvesOf);
