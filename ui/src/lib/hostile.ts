/**
 * Texts in a record come from clients. The browser never interprets them as markup; here they are
 * also kept from deceiving the eye: characters that are invisible or reorder the line are shown.
 */

// C0 and C1 controls, soft hyphen, fillers, invisible and bidirectional formatting, line separators,
// variation selectors, the byte order mark, and tags.
const HIDDEN = new RegExp(
  [
    String.raw`[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffc]`,
    String.raw`[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]`,
    String.raw`\u034f|\u115f|\u1160|\u17b4|\u17b5|\u3164|\uffa0`,
    String.raw`[\ufe00-\ufe0f]|[\u{e0000}-\u{e01ef}]`,
  ].join("|"),
  "gu",
);

const NAMES: Record<string, string> = { "\r": "\\r", "\u0000": "\\0", "\u001b": "\\e" };

function name(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return NAMES[character] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

export interface Piece {
  text: string;
  /** The text stands for a character that cannot be seen. */
  isHidden: boolean;
}

/** Splits a text into what can be shown as it is and names of what cannot be seen. */
export function reveal(text: string): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > end) {
      pieces.push({ text: text.slice(end, found.index), isHidden: false });
    }
    pieces.push({ text: name(found[0]), isHidden: true });
    end = found.index + found[0].length;
  }
  if (end < text.length) {
    pieces.push({ text: text.slice(end), isHidden: false });
  }
  return pieces;
}

/** The same as one text, for places that hold only text: titles, accessible names. */
export function revealed(text: string): string {
  return text.replace(HIDDEN, (character) => `⟨${name(character)}⟩`);
}

/** One line: runs of white space become one space. */
export function oneLine(text: string, limit = 400): string {
  const cut = text.length > limit * 2 ? text.slice(0, limit * 2) : text;
  const line = cut.replace(/[\t\n\r ]+/g, " ").trim();
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
}
