// What the other files read: the result lines, the answers, numbers as text, elements of the page.

const { lines, answers } = JSON.parse(document.getElementById("report").textContent);
const linesOf = (type) => lines.filter((line) => line.type === type);
const [run] = linesOf("run");
const [end] = linesOf("end");
const blocks = linesOf("block");
const results = linesOf("result");
const instructions = linesOf("instructions");

// The server against itself.
const AGAIN = "none-again";
const sides = run?.settings.side_by_side;
const baseline = sides?.baseline ?? "none";
const methodNames = [...new Set((run?.methods ?? []).map((method) => method.name))];
const titleOf = (name) => run?.methods.find((method) => method.name === name)?.title ?? name;

// A load: a workload, with so many connections, at such a rate.
const loadKey = (line) => [line.workload, line.threads, line.rate ?? ""].join("|");
const isUnder = (load) => (line) => loadKey(line) === loadKey(load);
const loads = [...new Map([...results, ...blocks].map((line) => [loadKey(line), line])).values()];
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const clientsOf = (load) =>
  plural(load.threads, "connection") +
  (sides ? " to each server" : "") +
  (load.rate ? `, ${load.rate} events/s` : "");
const nameOf = (load) => `${load.workload}, ${clientsOf(load)}`;

const number = (value, digits = 0) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

// Three significant digits.
function short(value) {
  const size = Math.abs(value);
  return number(value, size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

// As short as it is exact: for ticks.
const plain = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 6 });

const signed = (value, digits) => (value < 0 ? "−" : "+") + number(Math.abs(value), digits);

function median(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  if (sorted.length === 0) return NaN;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child != null));
  return node;
}

const section = (title, text, ...children) =>
  element(
    "section",
    { class: "card" },
    element("h2", {}, title),
    text ? element("p", { class: "soft" }, text) : null,
    ...children,
  );

const cssOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The server without an audit is grey, Tachograph has the accent; the others have what is left.
const others = methodNames.filter((name) => ![baseline, AGAIN, "tacho"].includes(name));
function colorOf(name) {
  const fixed = { [baseline]: "--c0", [AGAIN]: "--again", tacho: "--accent" };
  return cssOf(fixed[name] ?? `--c${(others.indexOf(name) % 8) + 1}`);
}
