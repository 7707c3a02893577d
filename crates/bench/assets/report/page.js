// Puts the page together. The answer is above it already.

function subtitle() {
  if (!run) return "There is no run in this file.";
  const when = new Date(run.started * 1000).toISOString().slice(0, 16).replace("T", " ");
  const gib = number(run.machine.memory_bytes / 2 ** 30);
  return (
    `${run.server.version}${run.server.private ? " (private server)" : ""} · ` +
    `${run.machine.cpus} × ${run.machine.model}, ${gib} GiB · ${when} UTC · tacho ${run.tacho}`
  );
}

function notes() {
  const texts = [...(run?.notes ?? []), ...(end?.notes ?? [])];
  if (!texts.length) return null;
  return section("Notes", "", element("ul", {}, ...texts.map((text) => element("li", {}, text))));
}

const NEIGHBOURS = (block) =>
  `Blocks of ${block} s alternate between a method and none under one running load, and each is ` +
  "compared with its neighbour. A figure is the median of these ratios with its 95 % bootstrap " +
  "interval. The server is compared with itself (A/A) in the same way: what lies in that interval " +
  "has not been measured. If it is wider than the limit, the figure is too noisy and left out.";

const SIDE_BY_SIDE = (block) =>
  `Two servers have the same load, in turns of 50 ms, one with a method, one with ${baseline}; ` +
  `after a block of ${block} s they exchange their roles. A round is both, and its ratio the ` +
  "geometric mean, in which the servers' own differences cancel. A figure is the center of the " +
  "rounds (Hodges-Lehmann) with its 95 % interval (signed ranks). The A/A interval has " +
  `${baseline} on both servers: what lies in it has not been measured.`;

function measurement() {
  if (!run) return null;
  const { side_by_side: _, ...settings } = run.settings;
  const values = {
    ...settings,
    ...sides,
    load_average: plain(run.machine.load_average),
    kernel: run.machine.kernel,
    ...run.server.variables,
  };
  const list = element("dl");
  for (const [name, value] of Object.entries(values)) {
    list.append(element("dt", {}, name), element("dd", {}, String(value)));
  }
  const text = (sides ? SIDE_BY_SIDE : NEIGHBOURS)(run.settings.block_s);
  const summary = element("summary", {}, "Settings, and variables of the server");
  const details = element("details", {}, summary, list);
  return section("How it was measured", blocks.length ? text : "", details);
}

document.getElementById("subtitle").textContent = subtitle();
const parts = [
  ...pictures(),
  allFigures(),
  allProcessorTime(),
  instructionTable(),
  ...curves(),
  notes(),
  measurement(),
];
document.getElementById("main").replaceChildren(...parts.filter(Boolean));
