// Which frames a search finds, and in how many samples: a stack with several counts once.
const findIn = (root, text) => {
  const wanted = text.trim().toLowerCase();
  const found = { hits: new Set(), names: new Set(), samples: 0 };
  if (wanted === "") {
    return found;
  }
  const visit = (node, isCounted) => {
    const isHit = node.row > 1 && `${node.name} ${node.file}`.toLowerCase().includes(wanted);
    if (isHit) {
      found.hits.add(node);
      found.names.add(node.name);
      found.samples += isCounted ? 0 : node.count;
    }
    for (const child of node.children.values()) {
      visit(child, isCounted || isHit);
    }
  };
  visit(root, false);
  return found;
};
