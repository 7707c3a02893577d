// Short names for the rows of the graph: without arguments and template arguments.
const shortName = (name) => {
  if (name.startsWith("[") || name.includes("operator") || name.includes("{")) {
    return name;
  }
  let depth = 0;
  let short = "";
  for (const letter of name.replaceAll("(anonymous namespace)::", "")) {
    if (letter === "<" || letter === "(") {
      if (depth === 0 && letter === "<") {
        short += "<…>";
      }
      depth += 1;
    } else if (letter === ">" || letter === ")") {
      depth -= 1;
    } else if (depth === 0) {
      short += letter;
    }
  }
  return depth === 0 && short.trim() ? short.trim() : name;
};

const percentOf = (part, total) => `${(total === 0 ? 0 : (100 * part) / total).toFixed(1)} %`;
