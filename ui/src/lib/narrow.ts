import { createSignal } from "solid-js";

/** As the styles have it: below this width records take two lines and filters lie over the list. */
const query = matchMedia("(max-width: 860px)");
const [isNarrow, setNarrow] = createSignal(query.matches);
query.addEventListener("change", () => setNarrow(query.matches));

export { isNarrow };

const ROW = 28;
const ROW_NARROW = 52;

/** The height of a record in a list, px. */
export const rowHeight = () => (isNarrow() ? ROW_NARROW : ROW);
