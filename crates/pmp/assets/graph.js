// Draws the tree and answers mouse and keyboard.
const [graph, details, search, matches, reset, idle] = [
  "graph",
  "details",
  "search",
  "matches",
  "reset",
  "idle",
].map((id) => document.getElementById(id));
const ROW_PIXELS = 22;
const LABEL_PIXELS_MIN = 26;

let root;
let zoomed;
let focused;
let found;
// What is drawn: nodes by element, and elements by node.
let nodes = new Map();
let elements = new Map();
let drawnWidth = 0;

// The same name has the same tint everywhere.
const tintOf = (name) => {
  let hash = 0;
  for (const letter of name) {
    hash = (hash * 31 + letter.codePointAt(0)) % 997;
  }
  return `${30 + (hash % 22)}%`;
};

const place = (node, left, share, width) => {
  const element = document.createElement("div");
  const isNarrow = share * width < LABEL_PIXELS_MIN;
  element.className = `frame ${node.state}`;
  element.classList.toggle("root", node.row < 2);
  element.classList.toggle("narrow", isNarrow);
  element.classList.toggle("above", node !== zoomed && isIn(zoomed, node));
  element.classList.toggle("hit", found.hits.has(node));
  element.style.left = `${left * 100}%`;
  element.style.width = `${share * 100}%`;
  element.style.top = `${node.row * ROW_PIXELS}px`;
  element.style.setProperty("--tint", node.row < 2 ? "75%" : tintOf(node.name));
  element.textContent = isNarrow ? "" : shortName(node.name);
  element.title = `${node.name}\n${sharesOf(node)}`;
  element.tabIndex = -1;
  element.setAttribute("role", "treeitem");
  element.setAttribute("aria-level", String(node.row + 1));
  element.setAttribute("aria-label", `${node.name}, ${sharesOf(node)}`);
  nodes.set(element, node);
  elements.set(node, element);
  graph.append(element);
};

const draw = () => {
  const width = graph.clientWidth || 1;
  const hadFocus = graph.contains(document.activeElement);
  drawnWidth = width;
  graph.replaceChildren();
  nodes = new Map();
  elements = new Map();
  for (let at = zoomed.parent; at; at = at.parent) {
    place(at, 0, 1, width);
  }
  let rows = 0;
  const visit = (node, left, share) => {
    // Narrower than a pixel: not visible, and its callees are not either.
    if (share * width < 1) {
      return;
    }
    place(node, left, share, width);
    rows = Math.max(rows, node.row + 1);
    let at = left;
    for (const child of childrenOf(node)) {
      const part = (share * child.count) / node.count;
      visit(child, at, part);
      at += part;
    }
  };
  visit(zoomed, 0, 1);
  graph.style.height = `${rows * ROW_PIXELS}px`;
  graph.classList.toggle("searching", search.value.trim() !== "");
  reset.hidden = zoomed === root;
  const current = elements.get(focused) ?? elements.get(zoomed);
  current.tabIndex = 0;
  if (hadFocus) {
    current.focus({ preventScroll: true });
  }
};

const sharesOf = (node) => {
  const share = `${percentOf(node.count, root.count)} of the samples (${node.count})`;
  return `${share}, ${(node.count / profile.rounds).toFixed(1)} threads on average`;
};

const describe = (node) => {
  const file = node.file ? ` in ${node.file}` : "";
  details.textContent = `${node.name}${file}: ${sharesOf(node)}`;
};

const focus = (node) => {
  focused = node;
  graph.querySelector("[tabindex='0']").tabIndex = -1;
  elements.get(node).tabIndex = 0;
  elements.get(node).focus();
  describe(node);
};

const zoom = (node) => {
  zoomed = node;
  focused = node;
  draw();
  describe(node);
};

const find = () => {
  found = findIn(root, search.value);
  const functions = found.names.size === 1 ? "1 function" : `${found.names.size} functions`;
  matches.textContent =
    search.value.trim() === ""
      ? ""
      : `${functions}, ${percentOf(found.samples, root.count)} of the samples`;
  draw();
};

const rebuild = () => {
  root = treeOf(idle.checked);
  zoomed = root;
  focused = root;
  document.querySelector(".bar")?.parentElement.classList.toggle("with-idle", idle.checked);
  find();
  describe(root);
};
