// All figures as tables. On a narrow screen each row is a card.

const COLUMNS = [
  ["qps", "queries/s", 1, 0],
  ["cpu_us_per_query", "CPU µs/query", 1, 1],
  ["p50_us", "p50 ms", 1e-3, 2],
  ["p99_us", "p99 ms", 1e-3, 2],
  ["p999_us", "p99.9 ms", 1e-3, 2],
];

// Rows of cells; the first row has the names of the columns.
function table([names, ...rows]) {
  const cell = (content, index) =>
    element(
      "td",
      { "data-name": names[index], ...(content === "" ? { class: "empty" } : {}) },
      ...[content].flat(),
    );
  const head = element("tr", {}, ...names.map((name) => element("th", {}, name)));
  const body = rows.map((cells) => element("tr", {}, ...cells.map(cell)));
  const whole = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "scroll" }, whole);
}

const small = (text) => element("small", {}, text);

function figureCell(figure, factor, digits) {
  if (!figure) return "";
  if (figure.ratio == null) return small("too noisy");
  const { ratio, low, high, on, difference } = figure;
  const more = ({ estimate, low, high }) =>
    `${signed(estimate * factor, digits)} (${signed(low * factor, digits)} to ` +
    `${signed(high * factor, digits)})`;
  return [
    element("span", {}, number(on * factor, digits)),
    small(`× ${ratio.toFixed(3)} (${low.toFixed(3)}–${high.toFixed(3)})`),
    ...(difference ? [small(more(difference))] : []),
  ];
}

function figures(load) {
  const mine = results.filter(isUnder(load));
  if (!mine.length) return null;
  const shown = COLUMNS.filter(([name]) => mine.some((line) => line.figures[name]));
  const none = mine.find((line) => line.method === AGAIN) ?? mine[0];
  const rows = [["method", ...shown.map(([, title]) => title), "log B/query"]];
  rows.push([
    titleOf(baseline),
    ...shown.map(([name, , factor, digits]) =>
      none.figures[name] ? number(none.figures[name].off * factor, digits) : "",
    ),
    "",
  ]);
  for (const line of mine) {
    // There is one A/A pair for each way of switching.
    const how = line.method === AGAIN && line.switch === "restart" ? ", by restarts" : "";
    rows.push([
      titleOf(line.method) + how,
      ...shown.map(([name, , factor, digits]) => figureCell(line.figures[name], factor, digits)),
      line.log_bytes_per_query == null ? "" : number(line.log_bytes_per_query),
    ]);
  }
  return element("div", {}, element("h3", {}, nameOf(load)), table(rows));
}

function allFigures() {
  const tables = loads.map(figures).filter(Boolean);
  if (!tables.length) return null;
  const text =
    `Medians of the blocks. Below each: the ratio to “${titleOf(baseline)}”, with its 95 % interval` +
    (sides ? ", and the difference." : ".");
  return section("Figures", text, ...tables);
}

// Where the processor time goes, µs per query.
function processorTime(load) {
  const measured = blocks.filter(isUnder(load)).filter((block) => block.cpu && block.queries > 0);
  if (!measured.length || !results.some(isUnder(load))) return null;
  const rows = [["method", "query threads, user", "kernel", "writer", "other threads"]];
  for (const name of methodNames.filter((name) => name !== AGAIN)) {
    const mine = measured.filter((block) => block.method === name);
    if (!mine.length) continue;
    const result = results.find((line) => line.method === name && isUnder(load)(line));
    if (result?.figures.cpu_us_per_query?.too_noisy) {
      rows.push([titleOf(name), ...rows[0].slice(1).map(() => small("too noisy"))]);
      continue;
    }
    const per = (of) => short(median(mine.map((block) => (of(block.cpu) * 1e6) / block.queries)));
    const kernel = (cpu) => cpu.sys_s / Math.max(1e-9, cpu.user_s + cpu.sys_s);
    rows.push([
      titleOf(name),
      per((cpu) => cpu.query_s * (1 - kernel(cpu))),
      per((cpu) => cpu.query_s * kernel(cpu)),
      per((cpu) => cpu.writer_s),
      per((cpu) => cpu.rest_s),
    ]);
  }
  return element("div", {}, element("h3", {}, nameOf(load)), table(rows));
}

function allProcessorTime() {
  const tables = loads.map(processorTime).filter(Boolean);
  if (!tables.length) return null;
  const text =
    "µs per query, medians of the blocks. User mode and kernel are divided as in the whole process.";
  return section("Where the processor time goes", text, ...tables);
}

function instructionTable() {
  const none = instructions.find((line) => line.method === "none");
  if (!none) return null;
  const rows = instructions.map((line) => [
    titleOf(line.method),
    number(line.query),
    signed(line.query - none.query),
    number(line.writer),
    number(line.process),
    signed(line.process - none.process),
  ]);
  return section(
    "Instructions per point select",
    "In user mode, counted by callgrind: other work on the machine does not change them.",
    table([["method", "query thread", "added", "writer", "process", "added"], ...rows]),
  );
}
