const profile = JSON.parse(document.getElementById("profile").textContent);

// The tree of the stacks: all, then a state, then functions from the outermost to the innermost.
// `profile.stacks` has [state, idle, samples, frames].
const treeOf = (withIdle) => {
  const node = (name, parent, state) => ({
    name,
    parent,
    state,
    file: "",
    count: 0,
    children: new Map(),
    row: parent ? parent.row + 1 : 0,
  });
  const root = node("all threads", null, "");
  for (const [state, idle, count, frames] of profile.stacks) {
    if (idle && !withIdle) {
      continue;
    }
    root.count += count;
    const name = idle ? "idle" : profile.states[state];
    let at = root;
    const enter = (key, label, file) => {
      let next = at.children.get(key);
      if (next === undefined) {
        next = node(label, at, name);
        next.file = file;
        at.children.set(key, next);
      }
      next.count += count;
      at = next;
    };
    enter(name, profile.labels[name], "");
    for (const number of frames) {
      enter(number, profile.frames[number][0], profile.frames[number][1]);
    }
  }
  return root;
};

// States in the order of the bar; of functions the largest first, so that what matters is at the
// left.
const childrenOf = (node) => {
  const children = [...node.children.values()];
  if (node.parent === null) {
    const position = (state) => [...profile.states, "idle"].indexOf(state);
    return children.sort((a, b) => position(a.state) - position(b.state));
  }
  return children.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1));
};

const isIn = (node, ancestor) => {
  for (let at = node; at; at = at.parent) {
    if (at === ancestor) {
      return true;
    }
  }
  return false;
};
