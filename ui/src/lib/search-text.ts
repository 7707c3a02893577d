/**
 * Edits the text of a search: the hub parses it, the UI only adds and removes filters at the top
 * level, and leaves everything else as the reader has written it.
 */

/** Splits at blanks outside quotes and brackets. */
export function terms(text: string): string[] {
  const found: string[] = [];
  let term = "";
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i += 1) {
    const c = text.charAt(i);
    if (quoted && c === "\\") {
      term += c + text.charAt(i + 1);
      i += 1;
      continue;
    }
    if (c === '"') {
      quoted = !quoted;
    } else if (!quoted && c === "(") {
      depth += 1;
    } else if (!quoted && c === ")") {
      depth = Math.max(0, depth - 1);
    } else if (!quoted && depth === 0 && /\s/.test(c)) {
      if (term !== "") {
        found.push(term);
      }
      term = "";
      continue;
    }
    term += c;
  }
  if (term !== "") {
    found.push(term);
  }
  return found;
}

// Words that need no quotes: nothing that the language gives a meaning.
const PLAIN = /^[\p{L}\p{N}_][\p{L}\p{N}_.@$-]*$/u;
const OPERATORS = new Set(["and", "or", "not"]);

/** A value as the language writes it. */
export function quote(value: string | number): string {
  const text = String(value);
  if (PLAIN.test(text) && !OPERATORS.has(text.toLowerCase())) {
    return text;
  }
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}

/** `user:app`. */
export const filter = (field: string, value: string | number) => `${field}:${quote(value)}`;

/** Whether the text has this filter at the top level: `true`, `false`, or `"excluded"`. */
export function state(text: string, term: string): boolean | "excluded" {
  const all = terms(text);
  if (all.includes(`-${term}`)) {
    return "excluded";
  }
  return all.includes(term);
}

/** Whether `or` at the top level makes appending a filter change the meaning of the rest. */
const hasOr = (all: string[]) => all.some((term) => term.toLowerCase() === "or");

/** Adds a filter, or removes it if it is there; adding removes its opposite. */
export function toggle(text: string, term: string, isExcluded = false): string {
  const wanted = isExcluded ? `-${term}` : term;
  const all = terms(text);
  const rest = all.filter((one) => one !== term && one !== `-${term}`);
  if (all.includes(wanted)) {
    return rest.join(" ");
  }
  const base = hasOr(rest) ? [`(${rest.join(" ")})`] : rest;
  return [...base, wanted].join(" ");
}
