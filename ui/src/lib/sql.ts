/** Splits SQL for coloring. It is no parser: any text gives tokens that join to the same text. */

export type TokenKind = "keyword" | "string" | "number" | "comment" | "name" | "other";

export interface Token {
  kind: TokenKind;
  text: string;
}

const KEYWORDS = new Set(
  `add all alter analyze and any as asc auto_increment avg before begin between binary by call case
  cast character check collate column commit constraint count create cross current_timestamp
  database databases declare default delayed delete desc describe distinct div do drop each else end
  enum escape event except execute exists explain false fetch flush for force foreign from full
  function grant group having high_priority identified if ignore in index inner insert install
  intersect interval into is isolation join key keys kill last leading left like limit load local
  lock match max min modify natural next not null nulls offset on optimize or order outer outfile
  over partition password plugin prepare primary privileges procedure processlist purge
  recursive references regexp release rename repeatable replace reset restrict return returning
  revoke right role rollback row rows savepoint schema select session set show shutdown soname
  sql start status straight_join sum table tables temporary then to trailing transaction trigger
  true truncate uncommitted uninstall union unique unlock unsigned update use user using values
  variables view when where while window with work write xor`.split(/\s+/),
);

const TOKEN = new RegExp(
  [
    String.raw`(/\*[\s\S]*?(?:\*/|$)|--(?=\s|$)[^\n]*|#[^\n]*)`,
    String.raw`('(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|"(?:[^"\\]|\\[\s\S]|"")*(?:"|$))`,
    "(`(?:[^`]|``)*(?:`|$))",
    String.raw`(\b(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b)`,
    String.raw`([\p{L}_@$][\p{L}\p{N}_@$]*)`,
    String.raw`(\s+|[^\s])`,
  ].join("|"),
  "giu",
);

/** Texts that are longer are shown without colors. */
const LONGEST = 20_000;

export function tokens(sql: string): Token[] {
  if (sql.length > LONGEST) {
    return [{ kind: "other", text: sql }];
  }
  const found: Token[] = [];
  for (const match of sql.matchAll(TOKEN)) {
    const kind = kindOf(match);
    const last = found.at(-1);
    if (last && last.kind === kind && kind === "other") {
      last.text += match[0];
    } else {
      found.push({ kind, text: match[0] });
    }
  }
  return found;
}

function kindOf(match: RegExpMatchArray): TokenKind {
  const [, comment, string, name, number, word] = match;
  if (comment !== undefined) {
    return "comment";
  }
  if (string !== undefined) {
    return "string";
  }
  if (name !== undefined) {
    return "name";
  }
  if (number !== undefined) {
    return "number";
  }
  return word !== undefined && KEYWORDS.has(word.toLowerCase()) ? "keyword" : "other";
}
