// The report of `tacho bench`: made from the lines of the result file and nothing else.
"use strict";
(() => {
  const lines = JSON.parse(document.getElementById("lines").textContent);
  const of = (type) => lines.filter((line) => line.type === type);
  const run = of("run")[0], end = of("end")[0];
  const blocks = of("block"), results = of("result"), instructions = of("instructions");
  const methods = run ? run.methods : [];
  const AGAIN = "none-again";
  const sides = run?.settings.side_by_side;
  const baseline = sides?.baseline ?? "none";

  // ---- small helpers -------------------------------------------------------------------

  const main = document.getElementById("main");
  function element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }
  function svg(tag, attributes = {}, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function section(title, text, ...children) {
    return element("section", {}, element("h2", {}, title),
      ...(text ? [element("p", { class: "soft" }, text)] : []), ...children);
  }
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const order = [...new Set(methods.map((method) => method.name))];
  const color = (name) => css(`--c${Math.max(0, order.indexOf(name)) % 10}`);
  const title = (name) => methods.find((method) => method.name === name)?.title ?? name;
  const number = (value, digits = 0) => value.toLocaleString("en-US",
    { minimumFractionDigits: digits, maximumFractionDigits: digits });
  // Three digits that matter.
  const short = (value) => {
    const size = Math.abs(value);
    return number(value, size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
  };
  const median = (values) => {
    const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
    const middle = sorted.length / 2;
    if (sorted.length === 0) return NaN;
    return sorted.length % 2 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2;
  };
  const cellKey = (line) => [line.workload, line.threads, line.rate ?? ""].join("|");
  const cellName = (line) => `${line.workload}, ${line.threads} connections`
    + `${sides ? " to each server" : ""}, `
    + (line.rate ? `${line.rate} events/s` : "closed loop");
  const cells = [...new Map(results.map((line) => [cellKey(line), line])).values()];

  function legend(names) {
    return element("div", { class: "legend" }, ...names.map((name) =>
      element("span", {}, element("i", { style: `background:${color(name)}` }), title(name))));
  }

  // ---- head ----------------------------------------------------------------------------

  function head() {
    if (!run) return "No run in this file.";
    const when = new Date(run.started * 1000).toISOString().slice(0, 16).replace("T", " ");
    const gib = number(run.machine.memory_bytes / 2 ** 30, 0);
    return `${run.server.version}${run.server.private ? " (private server)" : ""} · `
      + `${run.machine.cpus} × ${run.machine.model}, ${gib} GiB · ${when} UTC · tacho ${run.tacho}`;
  }

  function warnings() {
    const found = [];
    const noisy = results.filter((line) => line.method === AGAIN
      && ["qps", "cpu_us_per_query"].some((name) => line.figures[name]?.too_noisy));
    for (const line of noisy) {
      const told = ["qps", "cpu_us_per_query"].map((name) => line.figures[name])
        .filter((figure) => figure?.too_noisy)
        .map((figure) => `${figure.floor_low.toFixed(2)} to ${figure.floor_high.toFixed(2)}`);
      const how = line.switch === "restart" ? ", by restarts" : "";
      found.push(`Too noisy to tell: ${cellName(line)}${how}. The server against itself lies between `
        + `${told.join(" and ")}, where ±${number(run.settings.noise_max * 100)} % is allowed.`);
    }
    found.push(...(run?.notes ?? []), ...(end?.notes ?? []));
    if (results.length && !end) found.push("The run did not come to its end.");
    return found.length
      ? [element("div", { class: "warning" }, ...found.map((text) => element("p", {}, text)))] : [];
  }

  // ---- the table -----------------------------------------------------------------------

  const COLUMNS = [["qps", "queries/s", 1, 0], ["cpu_us_per_query", "CPU µs/query", 1, 1],
    ["p50_us", "p50 ms", 1e-3, 2], ["p99_us", "p99 ms", 1e-3, 2], ["p999_us", "p99.9 ms", 1e-3, 2]];

  function more({ difference }, factor, digits) {
    if (!difference) return "";
    const [estimate, low, high] = [difference.estimate, difference.low, difference.high]
      .map((value) => (value < 0 ? "−" : "+") + number(Math.abs(value) * factor, digits));
    return `, ${estimate} (${low} to ${high})`;
  }

  function table(cell) {
    const body = element("tbody");
    const mine = results.filter((line) => cellKey(line) === cellKey(cell));
    const shown = COLUMNS.filter(([name]) => mine.some((line) => line.figures[name]));
    const none = mine.find((line) => line.method === AGAIN) ?? mine[0];
    const row = (name, values, log) => element("tr", {}, element("td", {}, name), ...values,
      element("td", {}, log));
    body.append(row(baseline, shown.map(([name, , factor, digits]) => element("td", {},
      none.figures[name] ? number(none.figures[name].off * factor, digits) : "")), ""));
    for (const line of mine) {
      // There is one A/A pair for each way of switching.
      const name = title(line.method) + (line.method === AGAIN && line.switch === "restart"
        ? ", by restarts" : "");
      body.append(row(name, shown.map(([column, , factor, digits]) => {
        const figure = line.figures[column];
        if (!figure) return element("td", {});
        if (figure.ratio == null) return element("td", {}, element("small", {}, "too noisy"));
        return element("td", {}, `× ${figure.ratio.toFixed(3)} `,
          element("small", {}, `(${figure.low.toFixed(3)}–${figure.high.toFixed(3)}) `
            + number(figure.on * factor, digits) + more(figure, factor, digits)));
      }), line.log_bytes_per_query == null ? "" : number(line.log_bytes_per_query)));
    }
    return element("div", { class: "scroll" }, element("table", {}, element("thead", {},
      element("tr", {}, element("th", {}, "method"),
        ...shown.map(([, name]) => element("th", {}, name)), element("th", {}, "log B/query"))),
      body));
  }

  // ---- ratios with their intervals -----------------------------------------------------

  function ratios(cell, name, caption) {
    const mine = results.filter((line) => cellKey(line) === cellKey(cell)
      && line.figures[name] && line.method !== AGAIN);
    if (!mine.length) return null;
    const ends = mine.flatMap(({ figures: { [name]: f } }) =>
      [f.low, f.high, f.floor_low, f.floor_high, 1]).filter(Number.isFinite);
    // Beyond these an interval is shown cut.
    let low = Math.max(0.2, Math.min(...ends)), high = Math.min(5, Math.max(...ends));
    const margin = Math.max(0.02, (high - low) * 0.06);
    low -= margin; high += margin;
    const width = 460, left = 8, row = 34, top = 6, height = top + mine.length * row + 24;
    const x = (value) => left + (Math.min(high, Math.max(low, value)) - low) / (high - low)
      * (width - 2 * left);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `${caption}: ratio to no audit` });
    const bottom = top + mine.length * row;
    const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1].find((s) => (high - low) / s <= 8) ?? 1;
    for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) {
      drawing.append(svg("line", { x1: x(tick), x2: x(tick), y1: top, y2: bottom,
        stroke: "var(--line)" }));
      drawing.append(svg("text", { x: x(tick), y: bottom + 16, "text-anchor": "middle",
        class: "soft" }, tick.toFixed(step < 0.1 ? 2 : 1)));
    }
    mine.forEach((line, index) => {
      const figure = line.figures[name], y = top + index * row + row / 2 + 5;
      drawing.append(svg("rect", { x: x(figure.floor_low), y: top + index * row,
        width: Math.max(1, x(figure.floor_high) - x(figure.floor_low)), height: row,
        fill: "var(--band)", opacity: 0.22 }));
      drawing.append(svg("text", { x: left, y: y - 10 }, title(line.method)));
      if (figure.ratio == null) {
        drawing.append(svg("text", { x: left, y: y + 6, class: "soft" }, "too noisy"));
        return;
      }
      const paint = color(line.method);
      drawing.append(svg("line", { x1: x(figure.low), x2: x(figure.high), y1: y, y2: y,
        stroke: paint, "stroke-width": 3, "stroke-linecap": "round" }));
      drawing.append(svg("circle", { cx: x(figure.ratio), cy: y, r: 5, fill: paint }));
      drawing.append(svg("text", { x: width - left, y: y - 10, "text-anchor": "end" },
        `× ${figure.ratio.toFixed(3)}`));
    });
    drawing.append(svg("line", { x1: x(1), x2: x(1), y1: top, y2: bottom, stroke: "var(--text)",
      "stroke-dasharray": "3 3" }));
    return element("figure", {}, element("h3", {}, caption), drawing);
  }

  // ---- charts over time ----------------------------------------------------------------

  function axes(yLabel, format = short) {
    const grid = { stroke: css("--line"), width: 1 };
    const common = { stroke: css("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    return [{ ...common }, { ...common, size: 66, label: yLabel, labelSize: 18,
      labelFont: "12px system-ui, sans-serif", values: (_, ticks) => ticks.map((tick) =>
        tick == null ? "" : format(tick)) }];
  }

  function chart(holder, options, data) {
    const make = () => new uPlot({ width: Math.max(300, holder.clientWidth), height: 230,
      cursor: { drag: { x: true, y: false } }, ...options }, data, holder);
    const plot = make();
    new ResizeObserver(() => {
      const width = Math.max(300, holder.clientWidth);
      if (Math.abs(width - plot.width) > 1) plot.setSize({ width, height: plot.height });
    }).observe(holder);
  }

  // A block is a horizontal piece: two points, then a gap.
  function overTime(cell, caption, yLabel, value) {
    const mine = blocks.filter((block) => cellKey(block) === cellKey(cell)
      && Number.isFinite(value(block)));
    if (!mine.length) return null;
    const names = order.filter((name) => mine.some((block) => block.method === name));
    // Blocks of two servers begin and end together; each is half of the time.
    const rows = new Map();
    for (const block of mine) {
      const until = block.at_s + (sides ? 2 * run.settings.block_s : block.seconds);
      for (const [at, there] of [[block.at_s - 1e-3, false], [block.at_s, true], [until, true],
        [until + 1e-3, false]]) {
        if (!rows.has(at)) rows.set(at, names.map(() => null));
        if (there) rows.get(at)[names.indexOf(block.method)] = value(block);
      }
    }
    const times = [...rows.keys()].sort((a, b) => a - b);
    const series = names.map((_, index) => times.map((at) => rows.get(at)[index]));
    const holder = element("div");
    const figure = element("figure", {}, element("h3", {}, caption), holder);
    const bands = (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.globalAlpha = 0.14;
      for (const block of mine) {
        if (block.method === baseline) continue;
        const from = plot.valToPos(block.at_s, "x", true);
        const to = plot.valToPos(block.at_s + block.seconds, "x", true);
        const start = Math.max(from, bbox.left), stop = Math.min(to, bbox.left + bbox.width);
        ctx.fillStyle = color(block.method);
        if (stop > start) ctx.fillRect(start, bbox.top, stop - start, bbox.height);
      }
      ctx.restore();
    };
    const [xAxis, yAxis] = axes(yLabel);
    queueMicrotask(() => chart(holder, {
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.06] } },
      axes: [{ ...xAxis, values: (_, ticks) => ticks.map((tick) => `${tick} s`) }, yAxis],
      legend: { show: false },
      hooks: { drawClear: [bands] },
      series: [{}, ...names.map((name) => ({ label: title(name), stroke: color(name), width: 3,
        points: { show: false }, spanGaps: false }))],
    }, [times, ...series]));
    return figure;
  }

  // ---- latency -------------------------------------------------------------------------

  function latency(cell) {
    const mine = results.filter((line) => cellKey(line) === cellKey(cell)
      && line.latency_curve.length > 1);
    if (!mine.length) return null;
    const noisy = mine.find((line) => line.method === AGAIN)?.figures.p99_us?.too_noisy;
    const floor = mine.find((line) => line.method === AGAIN);
    const curves = [...(floor ? [[baseline, floor.latency_curve_off]] : []),
      ...mine.filter((line) => line.method !== AGAIN)
        .map((line) => [line.method, line.latency_curve])];
    const shares = [...new Set(curves.flatMap(([, curve]) => curve.map(([share]) => share)))]
      .sort((a, b) => a - b);
    // Nines at equal distances.
    const place = (share) => -Math.log10(1 - share);
    const data = [shares.map(place), ...curves.map(([, curve]) => {
      const at = new Map(curve);
      return shares.map((share) => (at.has(share) ? at.get(share) / 1e3 : null));
    })];
    const marks = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999].filter((share) =>
      share <= shares[shares.length - 1] + 1e-9);
    const holder = element("div");
    const [xAxis, yAxis] = axes("ms");
    queueMicrotask(() => chart(holder, {
      height: 300,
      scales: { x: { time: false }, y: { distr: 3 } },
      axes: [{ ...xAxis, splits: marks.map(place),
        values: () => marks.map((share) => `p${+(share * 100).toFixed(3)}`) },
      { ...yAxis, values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : short(tick))) }],
      legend: { show: false },
      series: [{}, ...curves.map(([name]) => ({ label: title(name), stroke: color(name),
        width: 2, points: { show: false }, spanGaps: true,
        dash: name === baseline ? [6, 4] : undefined }))],
    }, data));
    const text = "Share of events (transactions) that took no longer, all blocks together. "
      + (cell.rate ? "Open loop: the wait for a late predecessor counts."
        : "Closed loop: a client that waits sends nothing, so long waits are seldom counted; --rate shows them.")
      + (noisy ? " The machine was too noisy for p99: differences may be chance." : "");
    return section("Latency", text, legend(curves.map(([name]) => name)), holder);
  }

  // ---- processor time ------------------------------------------------------------------

  function processor(cell) {
    const mine = blocks.filter((block) => cellKey(block) === cellKey(cell) && block.cpu
      && block.queries > 0);
    if (!mine.length) return null;
    const parts = [["query threads, user", "--c1"], ["query threads, kernel", "--c7"],
      ["writer", "--c2"], ["other threads", "--c0"]];
    const rows = order.filter((name) => name !== AGAIN).map((name) => {
      const of_method = mine.filter((block) => block.method === name);
      const per = (value) => median(of_method.map((block) => value(block) * 1e6 / block.queries));
      const query = per((block) => block.cpu.query_s);
      const kernel = per((block) => block.cpu.query_s * block.cpu.sys_s
        / Math.max(1e-9, block.cpu.user_s + block.cpu.sys_s));
      return [name, [query - kernel, kernel, per((block) => block.cpu.writer_s),
        per((block) => block.cpu.rest_s)]];
    }).filter(([, values]) => Number.isFinite(values[0]));
    return section("Processor time of the server per query",
      "Medians of the blocks, µs. User and kernel are divided as the whole process was.",
      element("div", { class: "legend" }, ...parts.map(([name, paint]) => element("span", {},
        element("i", { style: `background:var(${paint})` }), name))),
      bars(rows.map(([name, values]) => [title(name), values]), parts.map(([, paint]) =>
        `var(${paint})`), (values) => `${short(values.reduce((a, b) => a + b, 0))} µs`));
  }

  // Horizontal bars of stacked parts.
  function bars(rows, paints, label) {
    const width = 1040, left = 250, right = 110, row = 30;
    const sum = (values) => values.reduce((a, b) => a + b, 0);
    const most = Math.max(...rows.map(([, values]) => sum(values)), 1e-9);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${rows.length * row + 4}`, role: "img" });
    rows.forEach(([name, values], index) => {
      const y = index * row + 4;
      drawing.append(svg("text", { x: left - 12, y: y + 16, "text-anchor": "end" }, name));
      let x = left;
      values.forEach((value, part) => {
        const wide = value / most * (width - left - right);
        if (wide > 0.2) {
          drawing.append(svg("rect", { x, y, width: wide, height: row - 8, fill: paints[part] }));
        }
        x += Math.max(0, wide);
      });
      drawing.append(svg("text", { x: x + 8, y: y + 16 }, label(values)));
    });
    return element("div", { class: "scroll" }, drawing);
  }

  function logSize(cell) {
    const mine = results.filter((line) => cellKey(line) === cellKey(cell)
      && line.log_bytes_per_query != null);
    if (!mine.length) return null;
    return section("Size of the log", "Bytes per query. A binary log has changes only.",
      bars(mine.map((line) => [title(line.method), [line.log_bytes_per_query]]),
        ["var(--c1)"], ([value]) => `${short(value)} B`));
  }

  // ---- scaling -------------------------------------------------------------------------

  function scaling() {
    const figures = [["qps", "queries/s against none"], ["cpu_us_per_query", "CPU per query against none"]];
    const families = new Map();
    for (const cell of cells) {
      const key = `${cell.workload}|${cell.rate ?? ""}`;
      families.set(key, [...(families.get(key) ?? []), cell]);
    }
    const charts = [], shown = new Set();
    for (const family of families.values()) {
      const threads = [...new Set(family.map((cell) => cell.threads))].sort((a, b) => a - b);
      if (threads.length < 2) continue;
      for (const [figure, caption] of figures) {
        const at = (name, count) => results.find((line) => line.workload === family[0].workload
          && (line.rate ?? "") === (family[0].rate ?? "") && line.threads === count
          && line.method === name)?.figures[figure]?.ratio ?? null;
        const names = order.filter((name) => name !== baseline && name !== AGAIN
          && threads.some((count) => at(name, count) != null));
        const heading = `${family[0].workload}: ${caption}`;
        if (!names.length) {
          charts.push(element("figure", {}, element("h3", {}, heading),
            element("p", { class: "soft" }, "too noisy")));
          continue;
        }
        names.forEach((name) => shown.add(name));
        const holder = element("div");
        const [xAxis, yAxis] = axes("ratio", (value) => value.toFixed(2));
        queueMicrotask(() => chart(holder, {
          scales: { x: { time: false, distr: 3, log: 2 } },
          axes: [{ ...xAxis, splits: threads, values: () => threads.map(String) }, yAxis],
          legend: { show: false },
          series: [{}, ...names.map((name) => ({ label: title(name), stroke: color(name),
            width: 2, points: { show: true, size: 8, fill: color(name) }, spanGaps: true }))],
        }, [threads, ...names.map((name) => threads.map((count) => at(name, count)))]));
        charts.push(element("figure", {}, element("h3", {}, heading), holder));
      }
    }
    if (!charts.length) return null;
    return section("Over the number of connections",
      "Ratios to the server without audit; 1 is no difference.", legend([...shown]),
      element("div", { class: "grid" }, ...charts));
  }

  // ---- the rest ------------------------------------------------------------------------

  function instructionTable() {
    const none = instructions.find((line) => line.method === "none");
    if (!none) return null;
    const rows = instructions.map((line) => element("tr", {}, ...[title(line.method),
      number(line.query), number(line.query - none.query), number(line.writer),
      number(line.process), number(line.process - none.process)].map((text) =>
      element("td", {}, text))));
    return section("Instructions per point select",
      "In user mode, by callgrind: no load of the machine is in them.",
      element("div", { class: "scroll" }, element("table", {}, element("thead", {},
        element("tr", {}, ...["method", "query thread", "added", "writer", "process", "added"]
          .map((name) => element("th", {}, name)))), element("tbody", {}, ...rows))));
  }

  function details() {
    if (!run) return null;
    const { side_by_side: ignored, ...settings } = run.settings;
    const told = { ...settings, ...sides, load_average: run.machine.load_average,
      kernel: run.machine.kernel, ...run.server.variables };
    const list = element("dl");
    for (const [name, value] of Object.entries(told)) {
      list.append(element("dt", {}, name), element("dd", {}, String(value)));
    }
    const how = sides
      ? `Two servers have the same load, in turns of 50 ms, one with a method, one with ${baseline}; `
        + `after a block of ${run.settings.block_s} s they exchange their roles. A round is both, `
        + "and its ratio the geometric mean, in which the servers' own differences cancel. A "
        + "figure is the center of the rounds (Hodges-Lehmann) with its 95 % interval (signed ranks). The "
        + `grey band has ${baseline} on both servers (A/A): what lies in it has not been measured.`
      : `Blocks of ${run.settings.block_s} s alternate between a method and none under one running `
        + "load, and each is compared with its neighbour. A figure is the median of these ratios "
        + "with its 95 % bootstrap interval. The grey band is the same server against itself "
        + "(A/A): what lies in it has not been measured.";
    return section("How it was measured", how, list);
  }

  function draw() {
    const chosen = main.dataset.cell;
    const cell = cells.find((line) => cellKey(line) === chosen) ?? cells[0];
    const parts = [...warnings()];
    if (cells.length > 1) {
      const choice = element("select", { "aria-label": "load" }, ...cells.map((line) => {
        const option = element("option", { value: cellKey(line) }, cellName(line));
        option.selected = line === cell;
        return option;
      }));
      choice.addEventListener("change", () => { main.dataset.cell = choice.value; draw(); });
      parts.push(element("div", { class: "choice" }, element("span", {}, "Load"), choice));
    }
    if (cell) {
      const forest = [["qps", "queries/s (more is better)"],
        ["cpu_us_per_query", "CPU per query (less is better)"],
        ["p50_us", "median latency (less is better)"], ["p99_us", "p99 latency (less is better)"]]
        .map(([name, caption]) => ratios(cell, name, caption)).filter(Boolean);
      parts.push(section(cellName(cell), `Each method as a multiple of ${title(baseline)}, with the `
        + "95 % interval; grey is the A/A interval.", element("div", { class: "grid" }, ...forest),
      element("h3", {}, "Figures"), table(cell)));
      const names = order.filter((name) => blocks.some((block) => block.method === name
        && cellKey(block) === cellKey(cell)));
      const charts = [
        overTime(cell, "queries/s", "queries/s", (block) => block.qps),
        overTime(cell, "events/s (transactions)", "events/s", (block) => block.tps ?? NaN),
        overTime(cell, "processors the server used", "processors",
          (block) => (block.cpu ? block.cpu.total_s / block.seconds : NaN)),
      ].filter(Boolean);
      if (charts.length) {
        parts.push(section("Over time", "Each piece is a block, on the colour of its method. Drag "
          + "to zoom, double-click to go back.", legend(names), ...charts));
      }
      parts.push(latency(cell), processor(cell), logSize(cell), scaling());
    }
    parts.push(instructionTable(), details());
    main.replaceChildren(...parts.filter(Boolean));
  }

  document.getElementById("subtitle").textContent = head();
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
