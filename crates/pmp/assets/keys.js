// The keyboard: "/" searches, Esc goes back, arrows move, Enter zooms.
const beside = (node, step) => {
  if (!node.parent || node === zoomed) {
    return undefined;
  }
  const siblings = childrenOf(node.parent);
  return siblings[siblings.indexOf(node) + step];
};

const MOVES = {
  ArrowUp: (node) => node.parent ?? undefined,
  ArrowDown: (node) =>
    childrenOf(node).find((child) => node === zoomed || !isIn(zoomed, node) || isIn(zoomed, child)),
  ArrowLeft: (node) => beside(node, -1),
  ArrowRight: (node) => beside(node, 1),
};

const back = () => {
  if (search.value !== "") {
    search.value = "";
    find();
  } else if (zoomed !== root) {
    zoom(root);
  }
};

const nextHit = () => {
  const hits = [...elements.keys()].filter((node) => found.hits.has(node));
  hits.sort((a, b) => b.count - a.count);
  if (hits.length > 0) {
    focus(hits[(hits.indexOf(focused) + 1) % hits.length]);
  }
};

graph.addEventListener("keydown", (event) => {
  const move = MOVES[event.key];
  if (move) {
    event.preventDefault();
    const next = move(focused);
    if (elements.has(next)) {
      focus(next);
    }
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    zoom(focused);
    focus(focused);
  } else if (event.key === "n") {
    nextHit();
  }
});

search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    event.preventDefault();
    nextHit();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== search && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "Escape") {
    back();
  }
});

const nodeAt = (event) => nodes.get(event.target.closest(".frame"));
graph.addEventListener("click", (event) => {
  const node = nodeAt(event);
  if (node) {
    zoom(node);
    focus(node);
  }
});
graph.addEventListener("mouseover", (event) => {
  const node = nodeAt(event);
  if (node) {
    describe(node);
  }
});
graph.addEventListener("mouseleave", () => describe(focused));
reset.addEventListener("click", () => zoom(root));
search.addEventListener("input", find);
idle.addEventListener("change", rebuild);
idle.checked = profile.withIdle;
rebuild();
new ResizeObserver(() => {
  if (graph.clientWidth !== drawnWidth) {
    draw();
  }
}).observe(graph);
